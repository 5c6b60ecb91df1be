#pragma once

#include "compiler/passes/tile_builder.h"

namespace tilewright {

/// Emits, where `b` stands, one sweep: a loop over static blocks of `block` columns that computes the long
/// operations `ops`. They come in program order and are all `width` wide. Results of reductions among them
/// are replaced by the loop's.
void emitSweep(TileBuilder &b, llvm::ArrayRef<mlir::Operation *> ops, mlir::Value width, int64_t block);

/// Replaces a max_sum_exp of a static tile by its equation.
void expandMaxSumExp(tile::MaxSumExpOp op);

} // namespace tilewright
