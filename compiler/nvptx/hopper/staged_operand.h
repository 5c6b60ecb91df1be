#pragma once

#include "compiler/nvptx/ptx/wgmma.h"

namespace tilewright::nvptx {

/// Policies of the second-level cache, as `createpolicy` makes them. The first asks for the default; but a
/// product whose copies name it takes 1 % less time on an H200 than without (1.004 and 1.014 of cuBLAS's,
/// medians of two). Lines of the other are the first to be replaced.
constexpr int64_t kEvictNormal = int64_t(1) << 60, kEvictFirst = 0x12F0000000000000;

/// One operand of a product, as the copy engine leaves it in a stage and the tensor cores read it: see
/// WgmmaOperand.
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
  void copy(Emitter &e, Num stage, Num k, Num barrier, Num policy) const;
  /// Clears a stage from depth `live` (i32) on. By a whole team.
  void clearDepth(Emitter &e, Num stage, Num live) const;
  /// As the tensor cores read it from byte `begin` (i32) of a stage on.
  WgmmaOperand at(Num begin) const { return {begin, depthIsMinor}; }

private:
  void clearLines(Emitter &e, Num stage, Num live) const;    ///< of an MN-major operand: whole ones
  void clearLineEnds(Emitter &e, Num stage, Num live) const; ///< of a K-major one: the end of each
};

} // namespace tilewright::nvptx
