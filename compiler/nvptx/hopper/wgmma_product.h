#pragma once

#include "compiler/nvptx/hopper/stage_ring.h"
#include "mlir/IR/BuiltinTypes.h"

namespace tilewright::nvptx {

/// Bytes of a line, the widest that shared memory swizzles.
constexpr int64_t kLineBytes = 128;

/// One operand of a product, as the copy engine leaves it in a stage and the tensor cores read it: lines of
/// 64 elements of 16 bits, or of 32 that are rounded to TF32, whose 16-byte chunks are permuted by the line's
/// number mod 8.
///
///     contracted axis contiguous in memory (K-major)      a line a position
///     free axis contiguous (MN-major; 16 bits)            for each 64 positions a panel: a line a depth
struct StagedOperand {
  int64_t positions; ///< along the free axis; a multiple of 64 where that is the contiguous one
  bool depthIsMinor;
  int64_t depth; ///< elements of the contracted axis in a stage
  Num offset;    ///< i64: the first position
  Value map;     ///< pointer to the tensor map
  /// CTAs of a cluster that all need it: each copies its share to all of them.
  int64_t shares = 1;
  Num share{nullptr, {}}; ///< i32: this CTA's, where there are several

  int64_t bytes() const { return positions * kLineBytes; }
  /// Rows of the boxes that the copy engine moves; all have a line's columns.
  int64_t boxRows() const { return depthIsMinor ? positions / shares : depth; }
  /// Whether its boxes can be dealt to so many CTAs.
  bool canShare(int64_t ctas) const { return (depthIsMinor ? positions / 8 : positions / 64) % ctas == 0; }
  /// Starts to copy depths from k (i64) on to `stage`; `barrier` counts the bytes. By one thread.
  void copy(Emitter &e, Num stage, Num k, Num barrier) const;
  /// Clears a stage from depth `live` (i32) on. By a whole team.
  void clearDepth(Emitter &e, Num stage, Num live) const;
  /// The low half (i32) of what tells the tensor cores where a stage's blocks of a quarter of its depths by
  /// 64 (or, on the right, all) positions lie: of the first, and what that of one further on has more.
  Num descriptor(Num stage) const;
  int64_t descriptorStep(int64_t positions, int64_t quarters) const;

private:
  void clearLines(Emitter &e, Num stage, Num live) const;    ///< of an MN-major operand: whole ones
  void clearLineEnds(Emitter &e, Num stage, Num live) const; ///< of a K-major one: the end of each
};

/// Accumulators of a warpgroup's part of a product, a list for each 64 rows, in the instruction's order: for
/// each 8 columns those of row g and then of row g + 8, two adjacent columns each, g = lane / 4.
using Accumulators = SmallVector<SmallVector<Value>>;

/// Adds one stage; each list's rows lie so many positions behind those of the one before. The numbers are not
/// to be touched before `waitForProducts`. Where `adds` (i32) is there and 0, they are replaced.
void addStage(Emitter &e, const StagedOperand &left, const StagedOperand &right, Type element, Num leftStage,
              Num rightStage, int64_t rowsBetween, Accumulators &sums, std::optional<Num> adds);
void fenceProducts(Emitter &e);
void commitProducts(Emitter &e);
/// All but the last `underWay` commits are done.
void waitForProducts(Emitter &e, int64_t underWay);
/// Everything is done, and the accumulators may be used.
void waitForProducts(Emitter &e, Accumulators &sums);

} // namespace tilewright::nvptx
