#pragma once

#include "compiler/layout/fragments.h"
#include "compiler/layout/shared_tile.h"
#include "compiler/nvptx/product.h"

namespace tilewright::nvptx {

/// A strip's way to `mma.sync`: 16-byte chunks by cp.async into swizzled lines of shared memory, fragments by
/// ldmatrix. Elements are of 16 bits; fp32 whose contracted axis is minor goes the same way, as two halves
/// each.
class LineOperand {
public:
  /// `step`: elements of the contracted axis in a stage, 32 or 64.
  LineOperand(FunctionLowering &lowering, const Strip &strip, layout::Side side, int64_t step);

  int64_t bytes() const { return tile.bytes(); }
  /// Starts to copy elements [k, k + step), zeros where there are none.
  void copy(Num shared, Num k);
  /// Fragments of 16 positions each that the warp multiplies at one depth of 16 of a stage, 4 registers each.
  SmallVector<SmallVector<Value>> fragments(Num shared, int64_t k);

private:
  int64_t registersOfFragment() const;
  Num lanePosition();
  Num free(Num position);
  Value isAligned();
  int64_t minorChunks() const;
  int64_t totalChunks() const;
  std::pair<Num, Num> place(Num chunk);
  Num address(Num position, Num k, Num first);
  Num liveDepth(Num first);
  Value isLivePosition(Num position);
  void copyChunks(Num shared, Num first);
  Num liveBytes(Num position, Num k, Num depth);
  void copyElements(Num shared, Num first);

  FunctionLowering &lowering;
  Emitter &e;
  Strip strip;
  layout::Side side;
  layout::SharedTile tile;
  int64_t threads;
  Value aligned;
  Num low, high; ///< positions [low, high) of the tile lie inside the view
};

/// Of a warp's accumulators those in rows 2m, 2m + 1 and columns 2n, 2n + 1 of the registers: 16 rows by 8.
struct AccumulatorBlock {
  llvm::SmallVectorImpl<Value> &sums;
  int64_t columns; ///< registers along a row
  int64_t m, n;
  Value &operator[](int64_t i) const { return sums[(2 * m + i / 2) * columns + 2 * n + i % 2]; }
};

/// block += left · right by one `mma.sync` of a shape and a type of operands.
void addFragments(Emitter &e, const std::string &shape, const std::string &type,
                  const AccumulatorBlock &block, ValueRange left, ValueRange right);

} // namespace tilewright::nvptx
