#pragma once

#include "kernels/lce/forward_kernels.h"

namespace tilewright::lce {

/// Whether `forward` computes the block of these rows, where it is given this range of rows: a 1×1 truth
/// value.
Tile isComputed(KernelBuilder &k, const View &rowRange, const Range &blockRows);

/// The one shift of a row whose blocks may have shifts of their own, `tops`, and Σ E by it.
struct JoinedBlocks {
  Tile shift, total;
  /// The shift is at least `least`.
  JoinedBlocks(const Tile &sums, const Tile &tops, const Tile &least);
};

/// The same of blocks whose shifts may be raised; Σ E is in the unit of E. `unit`: as `joinSums` tells it.
struct JoinedRaised {
  Tile shift, total, unit;
  JoinedRaised(const Tile &sums, const Tile &tops, const Tile &least);
};

/// What finishes a row (see `FinishSpec`), and its parameters.
class RowFinish {
public:
  /// Of a row; sums are in the unit of E.
  struct Row {
    Tile shift;
    Tile total;  ///< Σ E
    Tile stored; ///< the same of E as it is stored; none where there is no E
    Tile unit;   ///< of a row whose blocks were joined
  };

  /// `sums`: of the blocks, where they are a parameter already.
  RowFinish(KernelBuilder &k, const FinishSpec &spec, const View &sums);

  /// `total`: Σ of the blocks' sums, which is Σ E if all have the shift of the row. Of a row of E, a shift
  /// that changes is stored.
  Row finish(KernelBuilder &k, const Range &row, const View &shift, const Tile &total) const;

private:
  Tile hasOwnShifts(KernelBuilder &k, const Range &row, const Tile &total) const;
  Row withOneShift(KernelBuilder &k, const Range &row, const Tile &shift) const;
  Tile sumAsStored(KernelBuilder &k, const Range &row, const Tile &bound, const Tile &total) const;

  FinishSpec spec_;
  View e_, sums_, rowRange_, tops_;
};

} // namespace tilewright::lce
