#pragma once

#include "compiler/options.h"
#include "compiler/target.h"

namespace mlir {
class OpPassManager;
}

namespace tilewright {

/// From what the DSL builds to what a target's lowering starts from: static tiles and nothing a target need
/// not know.
void addTilePasses(mlir::OpPassManager &passes, const Target &target, const CompileOptions &options);

/// From there to the LLVM dialect.
void addCpuPasses(mlir::OpPassManager &passes, const Target &target, const CompileOptions &options);

/// For an NVIDIA GPU, each with those of the one before it. The first two leave the tile IR as it is, but for
/// attributes that say what the warps of a CTA do, and who holds what of each tile.
void addPlanPasses(mlir::OpPassManager &passes, const Target &target, const CompileOptions &options);
void addLayoutPasses(mlir::OpPassManager &passes, const Target &target, const CompileOptions &options);
void addNvptxPasses(mlir::OpPassManager &passes, const Target &target, const CompileOptions &options);

} // namespace tilewright
