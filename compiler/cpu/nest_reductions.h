#pragma once

#include "compiler/cpu/emitter.h"
#include "compiler/dialect/tile_ops.h"

namespace tilewright::cpu {

// What a nest's reductions do to scalars, and to vectors lane by lane.

mlir::Value neutralElement(mlir::ImplicitLocOpBuilder &b, tile::ReduceOp reduce);

mlir::Value combine(mlir::ImplicitLocOpBuilder &b, tile::ReduceOp reduce, mlir::Value x, mlir::Value y);

// What a reduction along a row carries from strip to strip. It is a vector of as many lanes as a strip.
// Beside a maximum or minimum of floats, which leaves NaNs out, it is a second vector that says whether there
// were any: a processor's own maximum does not care for NaNs, and two vectors are looked through for them at
// once.

unsigned lanesCarried(tile::ReduceOp reduce);
mlir::SmallVector<Value> beginLanes(Emitter &e, tile::ReduceOp reduce, int64_t lanes);
mlir::SmallVector<Value> addLanes(Emitter &e, tile::ReduceOp reduce, ValueRange carried, Value strip);
/// One number of all lanes, by a tree that is the same in every run.
Value endLanes(Emitter &e, tile::ReduceOp reduce, ValueRange carried);

} // namespace tilewright::cpu
