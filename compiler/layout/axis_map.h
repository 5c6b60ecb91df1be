#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilewright::layout {

/// A bit of the thread's number within its CTA, and how far along the axis it moves.
struct ThreadBit {
  int bit;
  int64_t stride;
};

/// Who holds which positions of one axis of a tile:
///
///     position(thread, register) = Σ (thread's bit i) · stride_i  +  offsets[register]
///
/// A tile is held by the product of a row map and a column map whose thread bits differ. Threads that differ
/// only in bits that neither map uses are *replicas*: they hold the same elements. The row map alone holds an
/// R×1 tile, the column map a 1×C tile, and a 1×1 tile is in every thread. For 64 columns of two each in a
/// warp:
///
///     thread    0    1    2  …  31         (run 2, stride 2 for bit 0)
///     columns   0 1  2 3  4 5 … 62 63
struct AxisMap {
  int64_t extent = 1;              ///< positions there are; what lies beyond is padding
  int64_t run = 1;                 ///< registers come in runs of so many adjacent positions
  std::vector<ThreadBit> bits;     ///< in the order of their strides
  std::vector<int64_t> offsets{0}; ///< of each register, ascending

  int64_t position(int64_t thread, std::size_t reg) const;
  int64_t registers() const { return static_cast<int64_t>(offsets.size()); }
  int64_t span() const; ///< positions, padding included
  int64_t threadMask() const;
  bool isPadded() const { return span() > extent; }
};

bool operator==(const AxisMap &a, const AxisMap &b);
inline bool operator!=(const AxisMap &a, const AxisMap &b) { return !(a == b); }

/// Runs of adjacent positions dealt to the threads in turn, as often as it takes.
AxisMap blockedMap(int64_t extent, const std::vector<int> &bits, int64_t run);

/// Rows and columns of the accumulators of mma.sync m16n8 over a grid of warps: `warpBits` of the thread's
/// number choose one of equal stretches of the axis.
AxisMap accumulatorRows(int64_t extent, const std::vector<int> &warpBits);
AxisMap accumulatorColumns(int64_t extent, const std::vector<int> &warpBits);

/// Rows of the accumulators of wgmma m64 by 2^groupBits warpgroups, which take 64 rows in turn; of each 64,
/// warp w has 16w … 16w + 15.
AxisMap warpgroupRows(int64_t extent, int groupBits);
/// Columns of the same, in steps of 8: `groupBits` choose one of equal stretches.
AxisMap warpgroupColumns(int64_t extent, const std::vector<int> &groupBits);

/// Positions of one warp's stretch.
int64_t warpStretch(int64_t extent, std::size_t warpBits);

} // namespace tilewright::layout
