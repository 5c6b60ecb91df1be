#pragma once

#include "compiler/dialect/tile_ops.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace tilewright::cpu {

// What a nest's reductions do to scalars, and to vectors lane by lane.

mlir::Value neutralElement(mlir::ImplicitLocOpBuilder &b, tile::ReduceOp reduce);

mlir::Value combine(mlir::ImplicitLocOpBuilder &b, tile::ReduceOp reduce, mlir::Value x, mlir::Value y);

/// Of a vector's lanes, by a tree that is the same in every run.
mlir::Value reduceLanes(mlir::ImplicitLocOpBuilder &b, tile::ReduceOp reduce, mlir::Value vector);

} // namespace tilewright::cpu
