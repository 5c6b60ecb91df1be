#pragma once

#include "compiler/dsl/builder.h"

namespace tilewright {

/// Rows of one program where a program walks along whole rows: enough to share each load of a vector operand.
constexpr int64_t kRowsPerProgram = 8;

/// Below this, a probability may count as nothing where 16-bit gradients are made of it: the smallest number
/// that bf16 rounds to 2^-30, so that it does not matter whether small ones are left out before or after.
constexpr double kFlushBelow = 0x1.ffp-31;

/// An integer as a 1×1 i32 tile.
inline Tile integer(KernelBuilder &k, int64_t value) { return k.toTile(k.constant(value), ElementType::i32); }
/// A number as a 1×1 fp32 tile.
inline Tile number(KernelBuilder &k, int64_t value) { return cast(integer(k, value), ElementType::f32); }

/// Whether some row of a block holds, of R×1 truth values.
inline Condition anyHolds(KernelBuilder &k, const Tile &truth) {
  return k.toCondition(max(select(truth, integer(k, 1), 0), Axis::rows) > 0);
}
/// Whether some number of a block, R×1, is a row's or a class's: -1 is none's.
inline Condition anyIsThere(KernelBuilder &k, const Tile &number) {
  return k.toCondition(max(number, Axis::rows) >= 0);
}

/// How many elements of each row are true, R×1 i32.
inline Tile count(KernelBuilder &k, const Tile &truth) {
  return sum(select(truth, integer(k, 1), 0), Axis::columns);
}

/// The first element of a vector.
inline Tile first(KernelBuilder &k, const View &vector) {
  return vector[k.range(Axis::rows, k.constant(0), 1)];
}
inline void storeFirst(KernelBuilder &k, const View &vector, const Tile &value) {
  k.store(vector, k.range(Axis::rows, k.constant(0), 1), value);
}

/// A block of columns of a matrix of one row, 1×C.
inline Tile onlyRow(KernelBuilder &k, const View &matrix, const Range &columns) {
  return matrix.at(k.range(Axis::rows, k.constant(0), 1), columns);
}

/// 1 / |x| of each row. As PyTorch's normalize, nothing is divided by less than 1e-12.
inline Tile inverseNorm(KernelBuilder &k, const Tile &x) {
  return 1.0 / max(sqrt(sum(x * x, Axis::columns)), number(k, 1) * 1e-12);
}

/// The divisor of a mean: the number of valid rows, which a loss's first kernel left in `validCount`, at
/// least 1.
inline Tile validRows(KernelBuilder &k, const View &validCount) {
  return cast(max(first(k, validCount), integer(k, 1)), ElementType::f32);
}

/// Truth values: which positions of the range lie inside an axis of `size`.
inline Tile inside(KernelBuilder &k, const Range &range, const Index &size) {
  return range.positions() < k.toTile(size, ElementType::i32);
}

/// A block of a vector of row numbers, with -1 (no row) past its end, where a load alone would give row 0.
inline Tile rowNumbers(KernelBuilder &k, const View &rows, const Range &range) {
  return select(inside(k, range, rows.dim(0)), rows[range], -1);
}

} // namespace tilewright
