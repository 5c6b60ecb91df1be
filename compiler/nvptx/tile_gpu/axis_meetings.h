#pragma once

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tilewright::nvptx {

/// Calls `meet` with two tiles of an op and an axis along which they meet element by element: both have the
/// same number of elements there, and the op's elements take those of the same position. The lowering needs
/// the same layout of both.
void forEachMeeting(mlir::Operation *op, llvm::function_ref<void(mlir::Value, mlir::Value, int axis)> meet);

} // namespace tilewright::nvptx
