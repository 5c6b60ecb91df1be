#pragma once

#include <array>

#include "kernels/lce/forward_kernels.h"

namespace tilewright::lce {

/// The kernels of a vocabulary that ranks share. A rank has V of the classes and works as if there were no
/// others, up to the sums of a row; then the ranks tell each other what they found of it.

/// What a rank tells of a row. A shift is a_r, the row's own on this rank; E and its sums are without the
/// label.
enum class ShardFact {
  shift,         ///< a_r
  sum,           ///< Σ exp(z - a_r)
  target,        ///< the label's logit; 0 where the label is another rank's
  moments,       ///< Σ exp(z - a_r) (z - a_r)
  secondMoments, ///< Σ exp(z - a_r) (z - a_r)²
  weighedLogits, ///< Σ u z
  squares,       ///< Σ z²
  top,           ///< the largest logit
  bestHigh,      ///< the first class that has it, among all classes: its number / kBestRadix
  bestLow,       ///< and the remainder
};
constexpr int kShardFactKinds = 10;
constexpr int64_t kBestRadix = 1 << 12;

/// Those that a call needs, and where: fact f of a chunk's row i is number place(f) C + i of `stats`.
struct ShardFacts {
  std::array<int, kShardFactKinds> places; ///< -1: not told
  int count = 0;
  int place(ShardFact fact) const { return places[static_cast<int>(fact)]; }
  bool has(ShardFact fact) const { return place(fact) >= 0; }
};
ShardFacts shardFacts(const PerRowSum<bool> &sums, bool best);

/// Labels among all classes as a shard's kernels take them: `own`, else V where the label is another rank's;
/// `owned`, else -1; and `shift`, else another class of this rank, about as frequent if classes are in the
/// order of their frequency: its logit is the row's first shift. `share`: V / all classes.
///
/// (label N, first, classes, share, out own N, out owned N, out shift N)
Kernel shardLabels();

/// What a rank tells of a chunk's rows, and what undoes the rounding of its E.
///
/// (sums C×T or total C, target C, shift C, owned C[, tops C×T, best C×T], each of `sums` C×T, first, stride,
///  out stats F·stride[, out mend C])
struct ShardStatsSpec {
  PerRowSum<bool> sums = {};
  bool best = false;
  bool hasTotals = false;
};
Kernel shardStats(const ShardStatsSpec &spec);
CompileOptions shardStatsOptions(); ///< that suit it

/// Losses, and the factors of the gradients of this rank's classes, as `combine` makes them, from what all
/// ranks told. Every rank adds up the same numbers in the same order.
///
/// (gathered R·F·stride, ranks, rank, stride, shift C, owned C, row C, label C[, mend C][, row_norm C], row
///  terms, out as `combine`)
Kernel mergeShards(const CombineSpec &spec);
CompileOptions mergeOptions(const CombineSpec &spec); ///< that suit it

} // namespace tilewright::lce
