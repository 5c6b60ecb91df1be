#pragma once

#include <array>
#include <cstdint>

namespace tilewright::examples {

// The examples in float64, a row at a time: what tests and benchmarks compare with.

/// y = softmax(x), `size` numbers.
void softmaxRow(const double *x, int64_t size, double *y);

struct RowMoments {
  double mean, scale; ///< 1/√(variance + epsilon)
};
RowMoments momentsOf(const double *x, int64_t size, double epsilon);

/// y = (x - mean) · scale · gain + bias.
void layerNormRow(const double *x, const double *gain, const double *bias, int64_t size,
                  const RowMoments &moments, double *y);

/// Makes dx of a row, and adds its part to the gradients of gain and bias.
void layerNormGradientRow(const double *dy, const double *x, const double *gain, int64_t size,
                          const RowMoments &moments, double *dx, double *dGain, double *dBias);

/// Attention of one query to the first `seen` keys of its head: o = Σ_j softmax(scale · q·k_j)_j v_j, `width`
/// numbers.
void attentionRow(const double *q, const double *k, const double *v, int64_t seen, int64_t width,
                  double scale, double *o);

/// Philox-4x32-10, as published (see compiler/dsl/random.h).
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Whether `dropout` keeps the element at this place.
bool isKept(int64_t place, float p, uint64_t seed);

} // namespace tilewright::examples
