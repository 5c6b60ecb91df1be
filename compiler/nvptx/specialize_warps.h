#pragma once

#include "compiler/nvptx/function_lowering.h"

namespace tilewright::nvptx {

/// What the warps of a CTA do for a kernel with one product on sm_90a: one *producer* warp has the copy
/// engine fill a ring of stages, two *consumer* warpgroups multiply from there and run the rest of the
/// kernel.
///
///     cooperative   both consumers share each program: 64 rows each in turn; or, where rows are not a
///                   multiple of 128, half of its columns each
///     pingPong      each has programs of its own, and multiplies while the other runs its epilogue
///
/// The grid is persistent: each CTA takes programs in turn, and the producer runs ahead.
struct WarpPlan {
  WarpRoles roles;
  int64_t stages;
  int64_t rows, columns;   ///< of a program's product
  int64_t stageDepth = 64; ///< numbers of the contracted axis in a stage: 32 of fp32, rounded to TF32
  /// CTAs of a cluster, which run neighbours along an axis of the grid in step: in a row of it (1) the left
  /// operand is the same for all, in a column (0) the right one, and each copies a part of it to the shared
  /// memory of all. Bytes not moved from the second-level cache are power that the tensor cores have.
  int64_t clusterCtas = 1;
  int64_t clusterAxis = 1;
  mlir::Operation *boxedStore = nullptr; ///< that the copy engine makes, see TileStore; at most one
  /// The first step's products replace the sums, of which each program would otherwise clear 192 a thread.
  /// Where there is more to do than to reduce them once, ptxas spills for it.
  bool replacesSums = false;
  /// Clusters take programs by their ranks among all, which the launch passes, and not by their numbers:
  /// neighbours of a GPC then ask the second-level cache for the same lines.
  bool isRanked = false;
  /// See Pace. Warpgroups that take turns lose by it where they store tiles, and gain where they store none.
  bool keepsPace() const { return roles == WarpRoles::cooperative || !boxedStore; }
  int64_t sharesOf(int64_t operand) const { return operand == 1 - clusterAxis ? clusterCtas : 1; }
  /// Whether a consumer's accumulators leave it no registers for what it could load beside the product.
  bool fillsRegisters() const { return rows * columns / teamThreads() > kManyAccumulators; }
  int64_t teamThreads() const { return roles == WarpRoles::cooperative ? 256 : 128; }
  /// How the warps that multiply see the kernel.
  LoweringOptions consumers(LoweringOptions options) const {
    options.warps = static_cast<int>(teamThreads() / 32);
    options.warpgroups = true;
    return options;
  }
};

/// For people: "pingPong: 4 stages of 64, a program's product 128x192, …".
std::string str(const WarpPlan &plan);

/// A plan, or why a kernel or its product is not of that form; the portable lowering serves those.
struct WarpPlanning {
  std::optional<WarpPlan> plan;
  std::string refusal;
};
WarpPlanning planWarps(mlir::func::FuncOp kernel, const LoweringOptions &options);

/// Moves loads of a few registers a thread, which the rest of the kernel waits for, ahead of its product.
void moveLoadsAhead(tile::ContractOp product);

/// Replaces the kernel by the program of one thread.
mlir::LogicalResult lowerSpecialized(mlir::func::FuncOp kernel, const LoweringOptions &options,
                                     const WarpPlan &plan);

} // namespace tilewright::nvptx
