#pragma once

#include "compiler/layout/fragments.h"
#include "compiler/layout/shared_tile.h"
#include "compiler/nvptx/threads/product.h"

namespace tilewright::nvptx {

/// What a warp multiplies at one depth of 16 of an operand's lines: 4 registers for each 16 rows of a left
/// operand, 2 for each 8 columns of a right one. `map` is of the accumulators along the operand's free axis.
SmallVector<SmallVector<Value>> loadFragments(Lowering &lowering, const layout::AxisMap &map,
                                              const layout::SharedTile &tile, layout::Side side, Num shared,
                                              int64_t k);

/// The same, by addresses that a thread makes of one: others differ from it in bits that are known, for
/// swizzles are exclusive ors. A loop that multiplies tiles then keeps one register for an operand, not one a
/// fragment.
SmallVector<SmallVector<Value>> loadFragmentsByOne(Lowering &lowering, const layout::AxisMap &map,
                                                   const layout::SharedTile &tile, layout::Side side,
                                                   Num shared, int64_t k);

/// A strip's way to `mma.sync`: 16-byte chunks by cp.async into swizzled lines of shared memory, fragments by
/// ldmatrix. Elements are of 16 bits; fp32 whose contracted axis is minor goes the same way, as two halves
/// each.
class LineOperand {
public:
  /// `step`: elements of the contracted axis in a stage, 32 or 64.
  LineOperand(Lowering &lowering, const Strip &strip, layout::Side side, int64_t step);

  int64_t bytes() const { return tile.bytes(); }
  /// Starts to copy elements [k, k + step), zeros where there are none.
  void copy(Num shared, Num k);
  SmallVector<SmallVector<Value>> fragments(Num shared, int64_t k) {
    return loadFragments(lowering, *strip.map, tile, side, shared, k);
  }

private:
  Num free(Num position);
  int64_t minorChunks() const;
  int64_t totalChunks() const;
  std::pair<Num, Num> place(Num chunk);
  Value isLivePosition(Num position);
  Value isLiveDepth(Num k, Num depth, Num first);
  Value isWhole(Num first);
  void copyChunks(Num shared, Num first, bool areLive);
  Num liveBytes(Num position, Num k, Num depth);
  void copyElements(Num shared, Num first);

  Lowering &lowering;
  Emitter &e;
  Strip strip;
  layout::Side side;
  layout::SharedTile tile;
  int64_t threads;
  Value aligned;
  Num low, high; ///< positions [low, high) of the tile lie inside the view
};

} // namespace tilewright::nvptx
