#include "kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <thread>

namespace tilewright {
namespace {

void parallelFor(int64_t count, const std::function<void(int64_t)> &body) {
  const int64_t threads = std::max<int64_t>(1, std::min<int64_t>(count, std::thread::hardware_concurrency()));
  std::vector<std::thread> workers;
  auto work = [&](int64_t worker) {
    for (int64_t i = worker; i < count; i += threads)
      body(i);
  };
  for (int64_t worker = 1; worker < threads; ++worker)
    workers.emplace_back(work, worker);
  work(0);
  for (std::thread &worker : workers)
    worker.join();
}

// A matrix product in registers: panels of 4 rows of A and 32 columns of B, both zero-padded, k by k.
constexpr int64_t kRows = 4, kVectors = 4, kColumns = 8 * kVectors;
typedef double Vector __attribute__((vector_size(64)));

__attribute__((always_inline)) inline void multiplyPanels(int64_t inner, const double *a, const Vector *b,
                                                          Vector (&sum)[kRows][kVectors]) {
  for (int64_t k = 0; k < inner; ++k, a += kRows, b += kVectors)
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t j = 0; j < kVectors; ++j)
        sum[i][j] += a[i] * b[j];
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void multiplyPanels512(int64_t inner, const double *a, const Vector *b,
                                                          Vector (&sum)[kRows][kVectors]) {
  multiplyPanels(inner, a, b, sum);
}
__attribute__((target("avx2,fma"))) void multiplyPanels256(int64_t inner, const double *a, const Vector *b,
                                                           Vector (&sum)[kRows][kVectors]) {
  multiplyPanels(inner, a, b, sum);
}
#endif
void multiplyPanelsAnywhere(int64_t inner, const double *a, const Vector *b, Vector (&sum)[kRows][kVectors]) {
  multiplyPanels(inner, a, b, sum);
}

auto panelKernel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return multiplyPanels512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return multiplyPanels256;
#endif
  return multiplyPanelsAnywhere;
}

/// C += A·B, where A(i, k) and B(k, j) are functions and C is dense.
template <typename A, typename B>
void multiply(int64_t rows, int64_t columns, int64_t inner, const A &a, const B &b, double *c) {
  static const auto kernel = panelKernel();
  const int64_t rowPanels = (rows + kRows - 1) / kRows;
  std::vector<double> packedA(rowPanels * inner * kRows, 0.0);
  parallelFor(rowPanels, [&](int64_t panel) {
    double *out = &packedA[panel * inner * kRows];
    for (int64_t k = 0; k < inner; ++k)
      for (int64_t i = 0; i < std::min(kRows, rows - panel * kRows); ++i)
        out[k * kRows + i] = a(panel * kRows + i, k);
  });
  parallelFor((columns + kColumns - 1) / kColumns, [&](int64_t panel) {
    const int64_t first = panel * kColumns, width = std::min(kColumns, columns - first);
    std::vector<Vector> packedB(inner * kVectors, Vector{});
    double *flat = reinterpret_cast<double *>(packedB.data());
    for (int64_t j = 0; j < width; ++j)
      for (int64_t k = 0; k < inner; ++k)
        flat[k * kColumns + j] = b(k, first + j);
    for (int64_t block = 0; block < rowPanels; ++block) {
      Vector sum[kRows][kVectors] = {};
      kernel(inner, &packedA[block * inner * kRows], packedB.data(), sum);
      for (int64_t i = 0; i < std::min(kRows, rows - block * kRows); ++i)
        for (int64_t j = 0; j < width; ++j)
          c[(block * kRows + i) * columns + first + j] += sum[i][j / 8][j % 8];
    }
  });
}

struct Row {
  double loss, lse, largest;
};

/// The loss of one row of logits, which become exp(z - max).
Row exponentials(double *z, int64_t classes, int64_t label) {
  double top = z[0], largest = 0;
  for (int64_t j = 0; j < classes; ++j) {
    top = std::max(top, z[j]);
    largest = std::max(largest, std::fabs(z[j]));
  }
  const double target = z[label];
  double others = 0; // without the target, so that a loss near 0 keeps its digits
  for (int64_t j = 0; j < classes; ++j) {
    z[j] = std::exp(z[j] - top);
    if (j != label) others += z[j];
  }
  const double lse = top + std::log(others + z[label]);
  return {std::log1p(others / z[label]) < 1 ? std::log1p(others / z[label]) : lse - target, lse, largest};
}

/// Turns exp(z - max) into the gradient of g·loss.
void gradientOfRow(double *z, int64_t classes, int64_t label, double g) {
  double others = 0;
  for (int64_t j = 0; j < classes; ++j)
    if (j != label) others += z[j];
  const double total = others + z[label];
  for (int64_t j = 0; j < classes; ++j)
    z[j] *= g / total;
  z[label] = -g * (others / total);
}

/// The losses of rows, one call a chunk; `finish` reduces them.
class RowLosses {
public:
  RowLosses(const int64_t *label, int64_t rows, const ReferenceOptions &options)
      : label_(label), options_(options), rowLoss_(rows, 0.0), largest_(rows, 0.0) {
    result.lse.assign(rows, 0.0);
    result.validRows = rows - std::count(label, label + rows, options.ignoreIndex);
  }

  /// Logits of rows [first, first + count) to losses and, when wanted, to gradients in their place.
  void chunk(double *z, int64_t first, int64_t count, int64_t classes) {
    parallelFor(count, [&](int64_t i) {
      double *row = z + i * classes;
      const int64_t label = label_[first + i];
      if (label == options_.ignoreIndex) return std::fill(row, row + classes, 0.0);
      const Row r = exponentials(row, classes, label);
      rowLoss_[first + i] = r.loss;
      result.lse[first + i] = r.lse;
      largest_[first + i] = r.largest;
      if (options_.gradients) gradientOfRow(row, classes, label, upstream(first + i));
    });
  }

  ReferenceResult finish() {
    for (double largest : largest_)
      result.logitSize = std::max(result.logitSize, largest);
    if (options_.reduction == Reduction::none) {
      result.loss = rowLoss_;
      return std::move(result);
    }
    double total = 0;
    for (double loss : rowLoss_)
      total += loss;
    result.loss = {total / divisor()};
    return std::move(result);
  }

  ReferenceResult result;

private:
  double divisor() const {
    return options_.reduction == Reduction::mean ? std::max<int64_t>(1, result.validRows) : 1.0;
  }
  double upstream(int64_t row) const {
    const std::vector<double> &g = options_.gradOutput;
    return (g.empty() ? 1.0 : g.size() == 1 ? g[0] : g[row]) / divisor();
  }

  const int64_t *label_;
  const ReferenceOptions &options_;
  std::vector<double> rowLoss_, largest_;
};

} // namespace

ReferenceResult referenceLinearCrossEntropy(const float *hidden, const float *weight, const int64_t *label,
                                            int64_t rows, int64_t hiddenSize, int64_t classes,
                                            const ReferenceOptions &options) {
  RowLosses losses(label, rows, options);
  ReferenceResult &result = losses.result;
  if (options.gradients) {
    result.dHidden.assign(rows * hiddenSize, 0.0);
    result.dWeight.assign(classes * hiddenSize, 0.0);
  }
  const int64_t chunk = 256;
  for (int64_t first = 0; first < rows; first += chunk) {
    const int64_t count = std::min(chunk, rows - first);
    const float *x = hidden + first * hiddenSize;
    std::vector<double> z(count * classes, 0.0);
    multiply(
        count, classes, hiddenSize, [&](int64_t i, int64_t k) { return x[i * hiddenSize + k]; },
        [&](int64_t k, int64_t j) { return weight[j * hiddenSize + k]; }, z.data());
    losses.chunk(z.data(), first, count, classes);
    if (!options.gradients) continue;
    multiply(
        count, hiddenSize, classes, [&](int64_t i, int64_t k) { return z[i * classes + k]; },
        [&](int64_t k, int64_t j) { return weight[k * hiddenSize + j]; },
        &result.dHidden[first * hiddenSize]);
    multiply(
        classes, hiddenSize, count, [&](int64_t i, int64_t k) { return z[k * classes + i]; },
        [&](int64_t k, int64_t j) { return x[k * hiddenSize + j]; }, result.dWeight.data());
  }
  return losses.finish();
}

ReferenceResult referenceCrossEntropy(const float *logits, const int64_t *label, int64_t rows,
                                      int64_t classes, const ReferenceOptions &options) {
  RowLosses losses(label, rows, options);
  std::vector<double> z(logits, logits + rows * classes);
  losses.chunk(z.data(), 0, rows, classes);
  if (options.gradients) losses.result.dLogits = std::move(z);
  return losses.finish();
}

} // namespace tilewright
