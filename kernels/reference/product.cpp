#include "kernels/reference/product.h"

#include <algorithm>
#include <vector>

#include "compiler/base/parallel.h"

namespace tilewright::reference {
namespace {

// A matrix product in registers: panels of 4 rows of A and 32 columns of B, both zero-padded, k by k.
constexpr int64_t kRows = 4, kVectors = 4, kColumns = 8 * kVectors;
// Not aligned: memory and the functions below would disagree on how a vector of 64 bytes is. Where a function
// is not compiled for such vectors their alignment is 16 bytes, and where it is for half as long ones, it
// expects 32.
typedef double Vector __attribute__((vector_size(64), aligned(8), may_alias));

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

} // namespace

void addProduct(int64_t rows, int64_t columns, int64_t inner, const MatrixView &a, const MatrixView &b,
                double *c) {
  static const auto kernel = panelKernel();
  const int64_t rowPanels = (rows + kRows - 1) / kRows;
  std::vector<double> packedA(rowPanels * inner * kRows, 0.0);
  parallelFor(rowPanels, [&](int64_t panel) {
    double *out = &packedA[panel * inner * kRows];
    for (int64_t k = 0; k < inner; ++k)
      for (int64_t i = 0; i < std::min(kRows, rows - panel * kRows); ++i)
        out[k * kRows + i] = a.at(panel * kRows + i, k);
  });
  parallelFor((columns + kColumns - 1) / kColumns, [&](int64_t panel) {
    const int64_t first = panel * kColumns, width = std::min(kColumns, columns - first);
    std::vector<double> packedB(inner * kColumns, 0.0);
    for (int64_t j = 0; j < width; ++j)
      for (int64_t k = 0; k < inner; ++k)
        packedB[k * kColumns + j] = b.at(k, first + j);
    for (int64_t block = 0; block < rowPanels; ++block) {
      Vector sum[kRows][kVectors] = {};
      kernel(inner, &packedA[block * inner * kRows], reinterpret_cast<const Vector *>(packedB.data()), sum);
      for (int64_t i = 0; i < std::min(kRows, rows - block * kRows); ++i)
        for (int64_t j = 0; j < width; ++j)
          c[(block * kRows + i) * columns + first + j] += sum[i][j / 8][j % 8];
    }
  });
}

} // namespace tilewright::reference
