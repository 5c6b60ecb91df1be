#pragma once

#include <cstdint>

namespace tilewright::layout {

/// Where 16-byte chunks of a line lie in shared memory, in bytes. Lines are 4 or 8 chunks (64 or 128 bytes)
/// long, and a line's chunks are permuted by an exclusive or with the line's number, so that the same chunk
/// of 8 consecutive lines lies in 8 different groups of 4 banks:
///
///     line 0   0 1 2 3 4 5 6 7        line 1   1 0 3 2 5 4 7 6        line 2   2 3 0 1 6 7 4 5  …
///
/// N is an integer, or an expression that builds one.
template <class N> N swizzled(N line, N chunk, int64_t chunksPerLine) {
  const N key = line / (8 / chunksPerLine) % chunksPerLine;
  return line * (16 * chunksPerLine) + (chunk ^ key) * 16;
}

/// One operand of a product in shared memory: `positions` along its free axis by `depth` along the contracted
/// one, 16-bit elements, in the order in which global memory has them.
struct SharedTile {
  int64_t positions;
  int64_t depth;     ///< 32 or 64
  bool depthIsMinor; ///< lines run along the contracted axis

  /// Elements of a line. Across the contracted axis the tile is cut into panels of so many positions.
  int64_t lineElements() const { return depthIsMinor ? depth : positions % 64 == 0 ? 64 : 32; }
  int64_t chunksPerLine() const { return lineElements() / 8; }
  int64_t panels() const { return depthIsMinor ? 1 : (positions + lineElements() - 1) / lineElements(); }
  int64_t lines() const { return depthIsMinor ? positions : depth; } ///< of a panel
  int64_t bytes() const { return panels() * lines() * lineElements() * 2; }

  /// Byte offset of the chunk that holds element (position, k), which must be its first along the line.
  template <class N> N offset(N position, N k) const {
    if (depthIsMinor) return swizzled(position, k / 8, chunksPerLine());
    const N panel = position / lineElements(), inside = position % lineElements();
    return panel * (lines() * lineElements() * 2) + swizzled(k, inside / 8, chunksPerLine());
  }
};

} // namespace tilewright::layout
