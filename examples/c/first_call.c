/* What a process waits for: opening a runtime, and the first call of linear + cross entropy with its gradients. Then
 * the time of a call of few rows, which is mostly the library's own.
 *
 * Usage: first_call [CALLS]    2000 of them are timed, or as many as are asked for. */
#include "example.h"

#include <time.h>

enum { N = 64, H = 64, V = 512, kCalls = 2000 };

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

int main(int count, char **words) {
  const int calls = count > 1 ? atoi(words[1]) : kCalls;
  uint64_t seed = 3;
  float *x = randomFloats(N * H, 1, &seed), *w = randomFloats(V * H, 0.5, &seed);
  float *dx = randomFloats(N * H, 1, &seed), *dw = randomFloats(V * H, 1, &seed), loss = 0;
  int64_t y[N];
  for (int64_t i = 0; i < N; ++i)
    y[i] = i;
  tw_error *error = NULL;

  const double begin = milliseconds();
  tw_runtime *runtime = NULL;
  check(tw_runtime_open("cpu", NULL, &runtime, &error), &error, "open");
  const double opened = milliseconds();

  Tensor tx, tw, ty, tloss, tdx, tdw;
  tw_linear_cross_entropy_tensors tensors = TW_LINEAR_CROSS_ENTROPY_TENSORS_INIT;
  tensors.hidden = matrix(&tx, x, N, H), tensors.weight = matrix(&tw, w, V, H);
  tensors.label = labels(&ty, y, N), tensors.loss = vector(&tloss, &loss, 1);
  tensors.d_hidden = matrix(&tdx, dx, N, H), tensors.d_weight = matrix(&tdw, dw, V, H);
  tw_linear_cross_entropy *call = NULL;
  check(tw_linear_cross_entropy_prepare(runtime, &tensors, NULL, TW_PASS_FUSED, &call, &error), &error,
        "prepare");
  const int64_t bytes = tw_linear_cross_entropy_workspace_bytes(call);
  void *workspace = mustAllocate((size_t)bytes);
  check(tw_linear_cross_entropy_run(call, &tensors, workspace, bytes, NULL, NULL, &error), &error, "run");
  const double first = milliseconds();

  for (int i = 0; i < calls; ++i)
    check(tw_linear_cross_entropy_run(call, &tensors, workspace, bytes, NULL, NULL, &error), &error, "run");
  const double last = milliseconds();
  tw_counters counters = {0};
  counters.struct_bytes = sizeof counters;
  check(tw_runtime_counters(runtime, &counters, &error), &error, "counters");
  printf("open %.2f ms, first call %.2f ms (kernels: %d compiled, %d from disk, %d from bundles), later ones %.1f us\n",
         opened - begin, first - opened, (int)counters.compiled, (int)counters.from_disk,
         (int)counters.from_bundles, calls > 0 ? 1e3 * (last - first) / calls : 0);

  tw_linear_cross_entropy_free(call);
  tw_runtime_close(runtime);
  free(workspace), free(x), free(w), free(dx), free(dw);
  return 0;
}
