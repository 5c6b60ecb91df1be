/* A step of training: the loss of a language model's last layer and its gradients, in one call and, as a
 * framework needs them, forward and backward apart. Each result is compared with float64. */
#include "example.h"

enum { N = 70, H = 48, V = 301, kIgnored = 3 };

typedef struct Reference {
  double loss;
  double dx[N * H], dw[V * H];
} Reference;

static void computeReference(const float *x, const float *w, const int64_t *y, Reference *r) {
  double p[V];
  int64_t valid = 0;
  for (int64_t i = 0; i < N; ++i)
    valid += y[i] >= 0;
  r->loss = 0;
  for (int64_t i = 0; i < N * H; ++i)
    r->dx[i] = 0;
  for (int64_t i = 0; i < V * H; ++i)
    r->dw[i] = 0;
  for (int64_t i = 0; i < N; ++i) {
    if (y[i] < 0) continue;
    r->loss += rowLoss(x + i * H, w, y[i], H, V, p) / (double)valid;
    for (int64_t c = 0; c < V; ++c) {
      const double g = (p[c] - (c == y[i])) / (double)valid;
      for (int64_t k = 0; k < H; ++k) {
        r->dx[i * H + k] += g * (double)w[c * H + k];
        r->dw[c * H + k] += g * (double)x[i * H + k];
      }
    }
  }
}

/* Prepares, allocates what it needs, runs once. */
static tw_linear_cross_entropy *call(tw_runtime *runtime, const tw_linear_cross_entropy_tensors *tensors,
                                     tw_pass pass) {
  tw_error *error = NULL;
  tw_linear_cross_entropy *prepared = NULL;
  check(tw_linear_cross_entropy_prepare(runtime, tensors, NULL, pass, &prepared, &error), &error, "prepare");
  const int64_t bytes = tw_linear_cross_entropy_workspace_bytes(prepared);
  void *workspace = mustAllocate((size_t)bytes);
  check(tw_linear_cross_entropy_run(prepared, tensors, workspace, bytes, NULL, NULL, &error), &error, "run");
  free(workspace);
  return prepared;
}

int main(void) {
  static Reference right;
  uint64_t seed = 1;
  float *x = randomFloats(N * H, 1, &seed), *w = randomFloats(V * H, 0.5, &seed);
  float *dx = randomFloats(N * H, 1, &seed), *dw = randomFloats(V * H, 1, &seed),
        *lse = randomFloats(N, 1, &seed);
  float loss = 0, upstream = 0.5F;
  int64_t y[N];
  for (int64_t i = 0; i < N; ++i)
    y[i] = i == kIgnored ? -100 : i * 7919 % V;
  computeReference(x, w, y, &right);

  tw_error *error = NULL;
  tw_runtime *runtime = NULL;
  check(tw_runtime_open("cpu", NULL, &runtime, &error), &error, "open");
  printf("tilewright %s, ABI %d\n", tw_version(), tw_abi_version());

  Tensor tx, tw, ty, tloss, tlse, tdx, tdw, tsaved, tup;
  tw_linear_cross_entropy_tensors inputs = TW_LINEAR_CROSS_ENTROPY_TENSORS_INIT;
  inputs.hidden = matrix(&tx, x, N, H);
  inputs.weight = matrix(&tw, w, V, H);
  inputs.label = labels(&ty, y, N);

  tw_linear_cross_entropy_tensors fused = inputs;
  fused.loss = vector(&tloss, &loss, 1);
  fused.d_hidden = matrix(&tdx, dx, N, H);
  fused.d_weight = matrix(&tdw, dw, V, H);
  tw_linear_cross_entropy *prepared = call(runtime, &fused, TW_PASS_FUSED);
  printf("one call: %s\n", tw_linear_cross_entropy_description(prepared));
  expectClose("loss", fabs((double)loss - right.loss) / right.loss);
  expectClose("dX", relativeError(dx, right.dx, 1, N * H));
  expectClose("dW", relativeError(dw, right.dw, 1, V * H));
  tw_linear_cross_entropy_free(prepared);

  /* The upstream gradient is known only now: the saved gradients are multiplied by it. */
  tw_gradient_scaling *scaling = NULL;
  check(tw_gradient_scaling_prepare(runtime, fused.d_hidden->dtype, &scaling, &error), &error,
        "prepare scaling");
  const DLTensor *factor = vector(&tup, &upstream, 1);
  check(tw_gradient_scaling_run(scaling, fused.d_hidden, factor, fused.d_hidden, NULL, &error), &error,
        "scale");
  expectClose("dX times the upstream gradient", relativeError(dx, right.dx, 0.5, N * H));
  tw_gradient_scaling_free(scaling);

  /* Or: nothing but lse is saved, and the gradients are made from it. */
  tw_linear_cross_entropy_tensors forward = inputs, backward = inputs;
  forward.loss = fused.loss;
  forward.lse = vector(&tlse, lse, N);
  tw_linear_cross_entropy *ahead = call(runtime, &forward, TW_PASS_FUSED);
  backward.saved_lse = vector(&tsaved, lse, N);
  backward.grad_output = factor;
  backward.d_hidden = fused.d_hidden;
  backward.d_weight = fused.d_weight;
  tw_linear_cross_entropy *back = call(runtime, &backward, TW_PASS_BACKWARD);
  printf("forward and backward apart\n");
  expectClose("loss", fabs((double)loss - right.loss) / right.loss);
  expectClose("dX", relativeError(dx, right.dx, 0.5, N * H));
  expectClose("dW", relativeError(dw, right.dw, 0.5, V * H));

  tw_runtime_close(runtime); /* the calls keep what they need */
  tw_linear_cross_entropy_free(ahead);
  tw_linear_cross_entropy_free(back);
  free(x), free(w), free(dx), free(dw), free(lse);
  return 0;
}
