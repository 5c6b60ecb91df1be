#include "kernels/examples/reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace tilewright::examples {

void softmaxRow(const double *x, int64_t size, double *y) {
  const double top = *std::max_element(x, x + size);
  double total = 0;
  for (int64_t j = 0; j < size; ++j)
    total += y[j] = std::exp(x[j] - top);
  for (int64_t j = 0; j < size; ++j)
    y[j] /= total;
}

void attentionRow(const double *q, const double *k, const double *v, int64_t seen, int64_t width,
                  double scale, double *o) {
  std::vector<double> weights(seen);
  for (int64_t j = 0; j < seen; ++j)
    weights[j] = scale * std::inner_product(q, q + width, k + j * width, 0.0);
  softmaxRow(weights.data(), seen, weights.data());
  std::fill(o, o + width, 0);
  for (int64_t j = 0; j < seen; ++j)
    for (int64_t c = 0; c < width; ++c)
      o[c] += weights[j] * v[j * width + c];
}

RowMoments momentsOf(const double *x, int64_t size, double epsilon) {
  double mean = 0, variance = 0;
  for (int64_t j = 0; j < size; ++j)
    mean += x[j] / static_cast<double>(size);
  for (int64_t j = 0; j < size; ++j)
    variance += (x[j] - mean) * (x[j] - mean) / static_cast<double>(size);
  return {mean, 1 / std::sqrt(variance + epsilon)};
}

void layerNormRow(const double *x, const double *gain, const double *bias, int64_t size,
                  const RowMoments &moments, double *y) {
  for (int64_t j = 0; j < size; ++j)
    y[j] = (x[j] - moments.mean) * moments.scale * gain[j] + bias[j];
}

void layerNormGradientRow(const double *dy, const double *x, const double *gain, int64_t size,
                          const RowMoments &moments, double *dx, double *dGain, double *dBias) {
  const auto normalised = [&](int64_t j) { return (x[j] - moments.mean) * moments.scale; };
  double along = 0, across = 0;
  for (int64_t j = 0; j < size; ++j) {
    along += dy[j] * gain[j] * normalised(j) / static_cast<double>(size);
    across += dy[j] * gain[j] / static_cast<double>(size);
  }
  for (int64_t j = 0; j < size; ++j) {
    dx[j] = (dy[j] * gain[j] - normalised(j) * along - across) * moments.scale;
    dGain[j] += dy[j] * normalised(j);
    dBias[j] += dy[j];
  }
}

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> x, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(x[0]) * 0xD2511F53, b = uint64_t(x[2]) * 0xCD9E8D57;
    x = {uint32_t(b >> 32) ^ x[1] ^ key[0], uint32_t(b), uint32_t(a >> 32) ^ x[3] ^ key[1], uint32_t(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return x;
}

bool isKept(int64_t place, float p, uint64_t seed) {
  constexpr int64_t width = 1024; // see dropout.cpp
  const int64_t begin = place / (4 * width) * (4 * width), quarter = place % (4 * width) / width;
  const auto number = uint32_t(begin + place % width);
  const auto bits = philox({number, 0, 0, 0}, {uint32_t(seed), uint32_t(seed >> 32)})[quarter];
  return float(bits >> 8) * 0x1p-24f >= p;
}

} // namespace tilewright::examples
