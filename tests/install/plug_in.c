/* Loads a library at run time, as a plug-in is, computes a loss with it, and unloads it; then once more. No thread of the
 * library's may be left.
 *
 * Usage: plug_in LIBRARY */
#define _GNU_SOURCE
#include "example.h"

#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

enum { N = 5, H = 48, V = 301 };

static float x[N * H], w[V * H], loss[N];
static int64_t y[N];

static void *library;

static void *found(const char *name) {
  void *function = dlsym(library, name);
  if (!function) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return function;
}
/* A function of the library, with its type from the header. */
#define OURS(name) ((__typeof__(&name))found(#name))

static void checked(tw_code code, tw_error *error, const char *what) {
  if (code == TW_OK) return;
  fprintf(stderr, "%s: %s\n", what, OURS(tw_error_message)(error));
  exit(1);
}

static void computeLosses(void) {
  Tensor tx, tw, ty, tloss;
  tw_linear_cross_entropy_tensors tensors = TW_LINEAR_CROSS_ENTROPY_TENSORS_INIT;
  tensors.hidden = matrix(&tx, x, N, H), tensors.weight = matrix(&tw, w, V, H);
  tensors.label = labels(&ty, y, N), tensors.loss = vector(&tloss, loss, N);
  tw_linear_cross_entropy_options options = TW_LINEAR_CROSS_ENTROPY_OPTIONS_INIT;
  options.reduction = TW_REDUCTION_NONE;
  tw_runtime_options cpu = TW_RUNTIME_OPTIONS_INIT;
  cpu.threads = 2;
  tw_error *error = NULL;
  tw_runtime *runtime = NULL;
  tw_linear_cross_entropy *call = NULL;
  checked(OURS(tw_runtime_open)("cpu", &cpu, &runtime, &error), error, "open");
  checked(OURS(tw_linear_cross_entropy_prepare)(runtime, &tensors, &options, TW_PASS_FUSED, &call, &error), error,
          "prepare");
  const int64_t bytes = OURS(tw_linear_cross_entropy_workspace_bytes)(call);
  void *workspace = mustAllocate((size_t)bytes);
  checked(OURS(tw_linear_cross_entropy_run)(call, &tensors, workspace, bytes, NULL, NULL, &error), error, "run");
  OURS(tw_linear_cross_entropy_free)(call);
  OURS(tw_runtime_close)(runtime);
  free(workspace);
}

static int threadsOfProcess(void) {
  int count = 0;
  DIR *threads = opendir("/proc/self/task");
  while (threads && readdir(threads))
    ++count;
  closedir(threads);
  return count - 2; /* "." and ".." */
}

/* A thread that was joined is listed until the system has done away with it, which may be a moment later. */
static int threadsThatStay(void) {
  int count = threadsOfProcess();
  for (int tries = 0; count != 1 && tries < 2000; ++tries) {
    usleep(1000);
    count = threadsOfProcess();
  }
  return count;
}

int main(int count, char **words) {
  if (count != 2) return 2;
  uint64_t seed = 11;
  for (int64_t i = 0; i < N * H; ++i)
    x[i] = (float)uniform(&seed);
  for (int64_t i = 0; i < V * H; ++i)
    w[i] = (float)uniform(&seed);
  double right[N], p[V];
  for (int64_t i = 0; i < N; ++i)
    right[i] = rowLoss(x + i * H, w, y[i] = i, H, V, p);
  for (int turn = 0; turn < 2; ++turn) {
    library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    computeLosses();
    if (dlclose(library)) return 1;
    expectClose("losses", relativeError(loss, right, 1, N));
    const int left = threadsThatStay();
    if (left != 1) {
      fprintf(stderr, "expected one thread, found %d\n", left);
      return 1;
    }
  }
  return 0;
}
