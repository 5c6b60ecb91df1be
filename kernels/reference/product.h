#pragma once

#include <cstdint>

namespace tilewright::reference {

/// A matrix in memory, or its transpose: element (i, j) lies at data[i·rowStep + j·columnStep].
struct MatrixView {
  const double *data;
  int64_t rowStep, columnStep;
  double at(int64_t i, int64_t j) const { return data[i * rowStep + j * columnStep]; }
  MatrixView transposed() const { return {data, columnStep, rowStep}; }
};
inline MatrixView dense(const double *data, int64_t columns) { return {data, columns, 1}; }

/// C += A·B for a dense C of rows×columns; A is rows×inner.
void addProduct(int64_t rows, int64_t columns, int64_t inner, const MatrixView &a, const MatrixView &b,
                double *c);

} // namespace tilewright::reference
