/* What the examples share: random data, tensors, and the losses in float64. */
#ifndef TILEWRIGHT_EXAMPLE_H
#define TILEWRIGHT_EXAMPLE_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <tilewright.h>

/* Ends the program where a call has failed. It takes the error's address: which of its arguments is evaluated
 * first is for the compiler to say, and the call sets the error. */
static void check(tw_code code, tw_error **error, const char *what) {
  if (code == TW_OK) return;
  fprintf(stderr, "%s: code %d: %s\n", what, (int)code, tw_error_message(*error));
  exit(1);
}

static void *mustAllocate(size_t bytes) {
  void *memory = NULL;
  if (posix_memalign(&memory, 256, bytes ? (bytes + 255) / 256 * 256 : 256)) {
    fprintf(stderr, "not enough memory\n");
    exit(1);
  }
  return memory;
}

/* Uniform in [-1, 1): a linear congruential generator, whose upper bits are good enough here. */
static double uniform(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 11) / 4503599627370496.0 - 1.0;
}

static float *randomFloats(int64_t count, double scale, uint64_t *state) {
  float *values = mustAllocate((size_t)count * sizeof(float));
  for (int64_t i = 0; i < count; ++i)
    values[i] = (float)(scale * uniform(state));
  return values;
}

/* Where tensors lie; device.h may change it. */
static DLDevice place = {kDLCPU, 0};

/* A tensor with its shape. */
typedef struct Tensor {
  DLTensor dl;
  int64_t shape[2];
} Tensor;

static const DLTensor *describe(Tensor *tensor, void *data, uint8_t code, uint8_t bits, int64_t rows,
                                int64_t columns) {
  const DLTensor dl = {data, place, columns ? 2 : 1, {code, bits, 1}, NULL, NULL, 0};
  tensor->dl = dl;
  tensor->shape[0] = rows;
  tensor->shape[1] = columns;
  tensor->dl.shape = tensor->shape;
  return &tensor->dl;
}

static const DLTensor *matrix(Tensor *tensor, float *data, int64_t rows, int64_t columns) {
  return describe(tensor, data, kDLFloat, 32, rows, columns);
}
static const DLTensor *vector(Tensor *tensor, float *data, int64_t size) {
  return describe(tensor, data, kDLFloat, 32, size, 0);
}
static const DLTensor *labels(Tensor *tensor, int64_t *data, int64_t size) {
  return describe(tensor, data, kDLInt, 64, size, 0);
}

/* One row's loss in float64; its probabilities go to p, V of them. */
static double rowLoss(const float *x, const float *w, int64_t label, int64_t h, int64_t v, double *p) {
  double largest = -INFINITY, sum = 0, ofLabel = 0;
  for (int64_t c = 0; c < v; ++c) {
    double z = 0;
    for (int64_t k = 0; k < h; ++k)
      z += (double)x[k] * (double)w[c * h + k];
    p[c] = z;
    if (z > largest) largest = z;
    if (c == label) ofLabel = z;
  }
  for (int64_t c = 0; c < v; ++c)
    sum += p[c] = exp(p[c] - largest);
  for (int64_t c = 0; c < v; ++c)
    p[c] /= sum;
  return largest + log(sum) - ofLabel;
}

/* The Frobenius norm of what `found` is off, relative to that of scale · expected. */
static double relativeError(const float *found, const double *expected, double scale, int64_t count) {
  double off = 0, size = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double right = scale * expected[i], d = (double)found[i] - right;
    off += d * d;
    size += right * right;
  }
  return sqrt(off / (size > 0 ? size : 1));
}

/* Says how far a result is off, and ends the program where that is too much. */
static void expectClose(const char *what, double error) {
  const double most = 1e-5;
  printf("  %-32s relative error %.1e\n", what, error);
  if (!(error <= most)) {
    fprintf(stderr, "%s: expected a relative error of at most %.0e, found %.1e\n", what, most, error);
    exit(1);
  }
}

#endif
