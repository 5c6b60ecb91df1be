#pragma once

#include "compiler/nvptx/threads/lowering.h"
#include "compiler/nvptx/tile_gpu/warp_plan.h"

namespace tilewright::nvptx {

/// Replaces the kernel by the program of one thread.
mlir::LogicalResult lowerSpecialized(mlir::func::FuncOp kernel, const LoweringOptions &options,
                                     const WarpPlan &plan);

} // namespace tilewright::nvptx
