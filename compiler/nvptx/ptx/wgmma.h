#pragma once

#include "compiler/nvptx/ptx/emitter.h"

namespace tilewright::nvptx {

/// Bytes of a line, the widest that shared memory swizzles.
constexpr int64_t kLineBytes = 128;

/// A product's operand in shared memory, as wgmma reads it: lines of 64 elements of 16 bits, or of 32 that
/// are rounded to TF32, whose 16-byte chunks are permuted by the line's number mod 8.
///
///     contracted axis contiguous in memory (K-major)      a line a position
///     free axis contiguous (MN-major; 16 bits)            for each 64 positions a panel: a line a depth
struct WgmmaOperand {
  Num begin; ///< i32; its first line is at a multiple of 1024 bytes
  bool depthIsMinor;
  int64_t panelBytes = 64 * kLineBytes; ///< MN-major: from a panel to the next

  /// The low half (i32) of what tells the tensor cores where blocks of 64 (or, on the right, all) positions
  /// lie, of the depths of one instruction: of the first, and what that of one further on has more.
  Num descriptor() const;
  int64_t descriptorStep(int64_t positions, int64_t instructions) const;
};

/// The left operand: 64 rows for each list of accumulators, in shared memory or in registers.
struct WgmmaLeft {
  std::optional<WgmmaOperand> shared;
  int64_t rowsBetween = 0; ///< in shared memory, from the rows of a list to those of the next
  /// Of 16-bit numbers, for each list and instruction four registers, as mma.sync's left fragments.
  SmallVector<SmallVector<SmallVector<Value>>> fragments;
};

/// Accumulators of a warpgroup's part of a product, a list for each 64 rows, in the instruction's order: for
/// each 8 columns those of row g and then of row g + 8, two adjacent columns each, g = lane / 4.
using Accumulators = SmallVector<SmallVector<Value>>;
/// To a list row by row, and back; or column by column, which are the transpose's rows.
SmallVector<Value> byRows(const Accumulators &sums);
SmallVector<Value> byColumns(const Accumulators &sums);
Accumulators fromRows(ValueRange registers, int64_t columns);

/// Adds products of a line's depth: 64 numbers, or 32 of TF32. The sums are not to be touched before
/// `waitForProducts`. Where `adds` (i32) is there and 0, they are replaced.
void addProducts(Emitter &e, const WgmmaLeft &left, const WgmmaOperand &right, Type element,
                 Accumulators &sums, std::optional<Num> adds);
void fenceProducts(Emitter &e);
void commitProducts(Emitter &e);
/// All but the last `underWay` commits are done.
void waitForProducts(Emitter &e, int64_t underWay);
/// Everything is done, and the accumulators may be used.
void waitForProducts(Emitter &e, Accumulators &sums);

} // namespace tilewright::nvptx
