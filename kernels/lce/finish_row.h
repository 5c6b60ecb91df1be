#pragma once

#include "kernels/lce/forward_kernels.h"

namespace tilewright::lce {

/// Whether `forward` computes the block of these rows, where it is given this range of rows: a 1×1 truth
/// value.
Tile isComputed(KernelBuilder &k, const View &rowRange, const Range &blockRows);

/// What finishes a row of E (see `FinishSpec`), and its parameters.
class RowFinish {
public:
  /// Of a row; sums are in the unit of E.
  struct Row {
    Tile shift;
    Tile total;  ///< Σ E
    Tile stored; ///< the same of E as it is stored
  };

  /// `sums`: of the blocks, if they are a parameter already.
  RowFinish(KernelBuilder &k, const FinishSpec &spec, const View &sums);

  /// `total`: Σ E, if all blocks have the shift of the row. A shift that changes is stored.
  Row finish(KernelBuilder &k, const Range &row, const View &shift, const Tile &total) const;

private:
  Row withOneShift(KernelBuilder &k, const Range &row, const Tile &shift) const;
  Tile sumAsStored(KernelBuilder &k, const Range &row, const Tile &bound, const Tile &total) const;

  FinishSpec spec_;
  View e_, sums_, rowRange_, tops_;
};

} // namespace tilewright::lce
