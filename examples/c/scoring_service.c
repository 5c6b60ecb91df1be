/* A scoring service: several threads share one prepared call; each has a stream, a workspace, a status and requests of
 * its own, and learns the loss of every token. Each result is compared with float64.
 *
 * Usage: scoring_service [--device cpu|cuda] */
#include <pthread.h>

#include "device.h"

enum { kThreads = 4, kRequests = 8, N = 33, H = 40, V = 257 };

static tw_runtime *runtime;
static tw_linear_cross_entropy *scoring;
static float *weight, *deviceWeight;
static double worst[kThreads]; /* relative error of each thread's results */

/* What a client sends, and what it gets. */
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

static double errorOf(const Request *request) {
  double right[N], p[V];
  for (int64_t i = 0; i < N; ++i)
    right[i] = rowLoss(request->x + i * H, weight, request->y[i], H, V, p);
  return relativeError(request->loss, right, 1, N);
}

/* A thread's memory on the device, which serves one request after the other. */
typedef struct Worker {
  void *stream, *workspace;
  tw_call_status *status;
  float *x, *loss;
  int64_t *y;
  Tensor memory[4];
  tw_linear_cross_entropy_tensors tensors;
} Worker;

/* Memory for requests, and tensors that say where it is. */
static void begin(Worker *worker) {
  const tw_linear_cross_entropy_tensors none = TW_LINEAR_CROSS_ENTROPY_TENSORS_INIT;
  worker->stream = makeStream();
  worker->x = deviceAllocate(N * H * sizeof(float));
  worker->y = deviceAllocate(N * sizeof(int64_t));
  worker->loss = deviceAllocate(N * sizeof(float));
  worker->tensors = none;
  worker->tensors.hidden = matrix(&worker->memory[0], worker->x, N, H);
  worker->tensors.weight = matrix(&worker->memory[1], deviceWeight, V, H);
  worker->tensors.label = labels(&worker->memory[2], worker->y, N);
  worker->tensors.loss = vector(&worker->memory[3], worker->loss, N);
}

static void end(Worker *worker) {
  deviceFree(worker->x), deviceFree(worker->y), deviceFree(worker->loss);
  freeStream(worker->stream);
}

/* Copies, losses and copies back, in the order of the thread's stream. A CPU finds a label that is none at once, a GPU
 * when its kernels look: either way the status says so once the stream's work is done. */
static tw_code answer(Worker *worker, Request *request, tw_error **error) {
  const int64_t bytes = tw_linear_cross_entropy_workspace_bytes(scoring);
  copyToDevice(worker->x, request->x, N * H * sizeof(float), worker->stream);
  copyToDevice(worker->y, request->y, sizeof request->y, worker->stream);
  const tw_code code = tw_linear_cross_entropy_run(scoring, &worker->tensors, worker->workspace, bytes,
                                                   worker->status, worker->stream, error);
  copyToHost(request->loss, worker->loss, sizeof request->loss, worker->stream);
  waitFor(worker->stream);
  return code == TW_OK ? tw_call_status_error(worker->status, error) : code;
}

static void *serve(void *argument) {
  double *mine = argument;
  tw_error *error = NULL;
  Worker worker;
  begin(&worker);
  worker.workspace = deviceAllocate((size_t)tw_linear_cross_entropy_workspace_bytes(scoring));
  check(tw_call_status_create(runtime, NULL, &worker.status, &error), &error, "status");
  for (int i = 0; i < kRequests; ++i) {
    Request request;
    fill(&request, (uint64_t)((mine - worst) * kRequests + i));
    check(answer(&worker, &request, &error), &error, "answer");
    const double off = errorOf(&request);
    if (off > *mine) *mine = off;

    /* A request with a label that is none is this thread's error alone. */
    request.y[i] = V + i;
    const tw_code code = answer(&worker, &request, &error);
    if (code != TW_ERROR_USER || tw_call_status_error(worker.status, NULL) != TW_ERROR_USER) {
      fprintf(stderr, "expected label %d to be refused, found code %d\n", V + i, (int)code);
      exit(1);
    }
    tw_error_free(error);
    error = NULL;
    free(request.x);
  }
  tw_call_status_free(worker.status);
  deviceFree(worker.workspace);
  end(&worker);
  return NULL;
}

/* The weight, where the device reaches it, and the call that all threads share. */
static void prepareScoring(void) {
  uint64_t seed = 5;
  tw_error *error = NULL;
  Worker example;
  tw_linear_cross_entropy_options options = TW_LINEAR_CROSS_ENTROPY_OPTIONS_INIT;
  options.reduction = TW_REDUCTION_NONE;
  weight = randomFloats(V * H, 0.5, &seed);
  void *stream = makeStream();
  deviceWeight = deviceAllocate(V * H * sizeof(float));
  copyToDevice(deviceWeight, weight, V * H * sizeof(float), stream);
  waitFor(stream);
  freeStream(stream);
  begin(&example);
  check(tw_linear_cross_entropy_prepare(runtime, &example.tensors, &options, TW_PASS_FUSED, &scoring, &error), &error,
        "prepare");
  end(&example);
}

int main(int count, char **words) {
  const char *device = count == 3 && !strcmp(words[1], "--device") ? words[2] : "cpu";
  const int onGpu = !strcmp(device, "cuda");
  if ((count != 1 && count != 3) || (!onGpu && strcmp(device, "cpu"))) {
    fprintf(stderr, "usage: scoring_service [--device cpu|cuda]\n");
    return 2;
  }
  tw_error *error = NULL;
  check(tw_runtime_open(device, NULL, &runtime, &error), &error, "open");
  if (onGpu) openGpu();
  prepareScoring();

  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i)
    if (pthread_create(&threads[i], NULL, serve, &worst[i])) return 1;
  for (int i = 0; i < kThreads; ++i)
    pthread_join(threads[i], NULL);
  printf("%s: %d threads, %d requests each\n", device, kThreads, kRequests);
  for (int i = 0; i < kThreads; ++i)
    expectClose("losses of a thread's requests", worst[i]);

  tw_linear_cross_entropy_free(scoring);
  tw_runtime_close(runtime);
  deviceFree(deviceWeight);
  free(weight);
  return 0;
}
