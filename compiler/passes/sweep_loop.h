#pragma once

#include "compiler/passes/tile_builder.h"

namespace tilewright {

/// Columns of a sweep's static blocks.
struct SweepBlocks {
  int64_t rest = 0;     ///< where columns may lie outside the row
  int64_t interior = 0; ///< where none does, a multiple of `rest`; 0: no loop of its own
};

/// Emits, where `b` stands, one sweep: loops over static blocks that compute the long operations `ops`. They
/// come in program order and are all `width` wide. Results of reductions among them are replaced by the
/// loops'.
void emitSweep(TileBuilder &b, llvm::ArrayRef<mlir::Operation *> ops, mlir::Value width, SweepBlocks blocks);

/// Replaces a max_sum_exp of a static tile by its equation.
void expandMaxSumExp(tile::MaxSumExpOp op);

} // namespace tilewright
