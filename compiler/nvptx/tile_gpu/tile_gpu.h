#pragma once

#include "compiler/layout/axis_map.h"
#include "compiler/nvptx/tile_gpu/warp_plan.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/Hashing.h"

namespace tilewright::layout {
llvm::hash_code hash_value(const AxisMap &map);
} // namespace tilewright::layout

#include "compiler/nvptx/tile_gpu/tile_gpu_dialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/nvptx/tile_gpu/tile_gpu_attributes.h.inc"

#define GET_OP_CLASSES
#include "compiler/nvptx/tile_gpu/tile_gpu_ops.h.inc"

namespace tilewright::nvptx {

/// Attributes that assign-layouts writes, see the dialect: on a kernel, on what makes tiles.
constexpr llvm::StringLiteral kThreadsAttr = "tile_gpu.threads", kLayoutAttr = "tile_gpu.layout";

/// Whether an op's layouts are of its tiles' sizes, one for each tile that it makes, and of the kernel's
/// threads. An error says what is not.
mlir::LogicalResult verifyLayouts(mlir::Operation *op);

/// The layout of one tile that an op makes; null where it has none.
LayoutAttr layoutOf(mlir::OpResult tile);

} // namespace tilewright::nvptx
