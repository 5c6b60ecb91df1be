#pragma once

#include "compiler/passes/kept_exponentials.h"
#include "llvm/ADT/DenseMap.h"

namespace tilewright {

/// Columns of a sweep's static blocks.
struct SweepBlocks {
  int64_t rest = 0;     ///< where columns may lie outside the row
  int64_t interior = 0; ///< where none does, a multiple of `rest`; 0: no loop of its own
  /// The block that the interior leaves out for one position is cut into blocks of the rest, of which one
  /// alone is gone over with the rest.
  bool cutsLeftOut = false;
  /// A row's sum of exponentials takes the interior's blocks with a shift that is there before them.
  bool shiftsLazily = false;
};

/// What the sweeps over rows of one width keep on chip, from one to the next. All of them have the same
/// blocks.
struct KeptRows {
  int64_t columns = 0; ///< that there is room for, of one load, in each partner; 0: nothing is kept
  llvm::SmallVector<mlir::Operation *> loads; ///< to be kept

  // Once a sweep has kept something:
  llvm::DenseMap<mlir::Operation *, mlir::Value> places; ///< on chip
  mlir::Value end;                                       ///< of the interior
  mlir::Value kept; ///< the columns before this one are there, each partner's on its own chip

  KeptExponentials exponentials; ///< where there are no partners, and no loads are kept
};

/// Emits, where `b` stands, one sweep: loops over static blocks that compute the long operations `ops`. They
/// come in program order and are all `width` wide. Results of reductions among them are replaced by the
/// loops'. Each of `partners` takes every so many-th block.
void emitSweep(TileBuilder &b, llvm::ArrayRef<mlir::Operation *> ops, mlir::Value width, SweepBlocks blocks,
               int64_t partners, KeptRows &kept);

/// Replaces a max_sum_exp of a static tile by its equation.
void expandMaxSumExp(tile::MaxSumExpOp op);

} // namespace tilewright
