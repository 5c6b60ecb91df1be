#pragma once

#include "compiler/nvptx/tile_gpu/layouts.h"

namespace tilewright::nvptx {

/// What multiplies the operands of a product.
enum class Multiply {
  wgmma, ///< wgmma of a warpgroup on shared memory: bf16, f16, or fp32 rounded to TF32
  mma16, ///< mma.sync m16n8k16 on bf16 or f16
  tf32,  ///< mma.sync m16n8k8 on fp32 operands rounded to TF32
  fma,   ///< fp32 multiply-adds
};

Multiply multiplyFor(mlir::Type left, mlir::Type right, const LoweringOptions &options);
/// Of a product of tiles: mma16, which wgmma may stand for (see isByWgmma), or fma.
Multiply multiplyFor(tile::DotOp op);
/// Of either.
Multiply multiplyFor(mlir::Operation *product, const LoweringOptions &options);

/// Whether a product's instructions leave its accumulators in a layout.
bool canHold(TileLayout layout, Multiply multiply);

/// Whether 2^threadBits threads could multiply these tiles by wgmma, each warpgroup rows of its own.
bool isForWarpgroups(tile::DotOp op, int threadBits, const LoweringOptions &options);
/// Rows and columns of its accumulators then.
std::pair<layout::AxisMap, layout::AxisMap> warpgroupMaps(int64_t rows, int64_t columns, int threadBits);
/// Whether a product of tiles is by wgmma: it could be, and its accumulators are held so.
bool isByWgmma(tile::DotOp op, const Layouts &layouts, const LoweringOptions &options);

} // namespace tilewright::nvptx
