/* A scoring service: several threads share one prepared call; each has a workspace, a status and requests of
 * its own, and learns the loss of every token. Each result is compared with float64. */
#include <pthread.h>

#include "example.h"

enum { kThreads = 4, kRequests = 8, N = 33, H = 40, V = 257 };

static tw_runtime *runtime;
static tw_linear_cross_entropy *scoring;
static float *weight;
static double worst[kThreads]; /* relative error of each thread's results */

typedef struct Request {
  float *x;
  int64_t y[N];
  float loss[N];
} Request;

static void fill(Request *request, uint64_t seed) {
  request->x = randomFloats(N * H, 1, &seed);
  for (int64_t i = 0; i < N; ++i)
    request->y[i] = (int64_t)((uniform(&seed) + 1) / 2 * V);
}

static void tensorsOf(Request *request, Tensor *memory, tw_linear_cross_entropy_tensors *tensors) {
  const tw_linear_cross_entropy_tensors none = TW_LINEAR_CROSS_ENTROPY_TENSORS_INIT;
  *tensors = none;
  tensors->hidden = matrix(&memory[0], request->x, N, H);
  tensors->weight = matrix(&memory[1], weight, V, H);
  tensors->label = labels(&memory[2], request->y, N);
  tensors->loss = vector(&memory[3], request->loss, N);
}

static double errorOf(const Request *request) {
  double right[N], p[V];
  for (int64_t i = 0; i < N; ++i)
    right[i] = rowLoss(request->x + i * H, weight, request->y[i], H, V, p);
  return relativeError(request->loss, right, 1, N);
}

static void *serve(void *argument) {
  double *mine = argument;
  tw_error *error = NULL;
  tw_call_status *status = NULL;
  const int64_t bytes = tw_linear_cross_entropy_workspace_bytes(scoring);
  void *workspace = mustAllocate((size_t)bytes);
  check(tw_call_status_create(runtime, NULL, &status, &error), &error, "status");
  for (int i = 0; i < kRequests; ++i) {
    Request request;
    Tensor memory[4];
    tw_linear_cross_entropy_tensors tensors;
    fill(&request, (uint64_t)((mine - worst) * kRequests + i));
    tensorsOf(&request, memory, &tensors);
    check(tw_linear_cross_entropy_run(scoring, &tensors, workspace, bytes, status, NULL, &error), &error,
          "run");
    const double off = errorOf(&request);
    if (off > *mine) *mine = off;

    /* A request with a label that is none is this thread's error alone. */
    request.y[i] = V + i;
    const tw_code code =
        tw_linear_cross_entropy_run(scoring, &tensors, workspace, bytes, status, NULL, &error);
    if (code != TW_ERROR_USER || tw_call_status_error(status, NULL) != TW_ERROR_USER) {
      fprintf(stderr, "expected label %d to be refused, found code %d\n", V + i, (int)code);
      exit(1);
    }
    tw_error_free(error);
    error = NULL;
    free(request.x);
  }
  tw_call_status_free(status);
  free(workspace);
  return NULL;
}

int main(void) {
  uint64_t seed = 5;
  tw_error *error = NULL;
  weight = randomFloats(V * H, 0.5, &seed);
  check(tw_runtime_open("cpu", NULL, &runtime, &error), &error, "open");

  Request example;
  Tensor memory[4];
  tw_linear_cross_entropy_tensors tensors;
  tw_linear_cross_entropy_options options = TW_LINEAR_CROSS_ENTROPY_OPTIONS_INIT;
  options.reduction = TW_REDUCTION_NONE;
  fill(&example, 1);
  tensorsOf(&example, memory, &tensors);
  check(tw_linear_cross_entropy_prepare(runtime, &tensors, &options, TW_PASS_FUSED, &scoring, &error), &error,
        "prepare");

  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i)
    if (pthread_create(&threads[i], NULL, serve, &worst[i])) return 1;
  for (int i = 0; i < kThreads; ++i)
    pthread_join(threads[i], NULL);
  printf("%d threads, %d requests each\n", kThreads, kRequests);
  for (int i = 0; i < kThreads; ++i)
    expectClose("losses of a thread's requests", worst[i]);

  tw_linear_cross_entropy_free(scoring);
  tw_runtime_close(runtime);
  free(example.x), free(weight);
  return 0;
}
