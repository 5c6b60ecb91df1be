#pragma once

#include "compiler/passes/tile_builder.h"

namespace tilewright {

/// What a reduction gives over no element.
mlir::TypedAttr neutral(mlir::OpBuilder &b, tile::ReductionKind kind, mlir::Type element);

mlir::Value combine(TileBuilder &b, tile::ReductionKind kind, mlir::Value x, mlir::Value y);

/// What stands for m when it is subtracted: x - m must be -∞, not NaN, where both are -∞.
mlir::Value finiteOrZero(TileBuilder &b, mlir::Value m);

/// exp(x - m), where m is no less than any x, or below one by so little that a sum has no infinity: `afn`, as
/// the difference was rounded, and next to the largest term, 1 or more, those below 2⁻¹²⁶ count for nothing
mlir::Value exponentials(TileBuilder &b, mlir::Value x, mlir::Value m);

/// m' = max(m, max x),  s' = s·exp(m - m') + Σ exp(x - m')
struct MaxSumExp {
  mlir::Value max, sum;
  mlir::Value terms; ///< exp(x - m')
};
MaxSumExp combineMaxSumExp(TileBuilder &b, mlir::Value m, mlir::Value s, mlir::Value x);

/// Carried values of a reduction before the first block.
mlir::SmallVector<mlir::Value> initialValues(TileBuilder &b, mlir::Operation *op);

} // namespace tilewright
