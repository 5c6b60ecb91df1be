#pragma once

#include <optional>
#include <string>

#include "compiler/nvptx/tile_gpu/lowering_options.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/Hashing.h"

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
  WarpRoles roles = WarpRoles::cooperative;
  int64_t stages = 0;
  int64_t rows = 0, columns = 0; ///< of a program's product
  int64_t stageDepth = 64;       ///< numbers of the contracted axis in a stage: 32 of fp32, rounded to TF32
  /// CTAs of a cluster, which run neighbours along an axis of the grid in step: in a row of it (1) the left
  /// operand is the same for all, in a column (0) the right one, and each copies a part of it to the shared
  /// memory of all. Bytes not moved from the second-level cache are power that the tensor cores have.
  int64_t clusterCtas = 1;
  int64_t clusterAxis = 1;
  /// One store, which has kBoxedAttr, is made by the copy engine (see TileStore), from so many boxes of each
  /// warp; 0: none is.
  int64_t boxes = 0;
  /// The first step's products replace the sums, of which each program would otherwise clear 192 a thread.
  bool replacesSums = false;
  /// The tensor cores compute the transpose of each tile: what is multiplied from the right is their left
  /// operand. Of their operands they read the right one more often, so that it takes less power where that is
  /// the one whose numbers differ in fewer bits.
  bool swapsOperands = false;
  /// Clusters take programs by their ranks among all, which the launch passes, and not by their numbers:
  /// neighbours of a GPC then ask the second-level cache for the same lines.
  bool isRanked = false;
  /// The roles were asked for: a kernel that needs more than they have is an error.
  bool isRequired = false;
  /// See Pace, and OperandSharing. Warpgroups that take turns lose by both where they store tiles, and gain
  /// where they store none.
  bool keepsPace() const { return roles == WarpRoles::cooperative || boxes == 0; }
  int64_t sharesOf(int64_t operand) const { return operand == 1 - clusterAxis ? clusterCtas : 1; }
  /// Positions of the operands as the tensor cores take them.
  int64_t left() const { return swapsOperands ? columns : rows; }
  int64_t right() const { return swapsOperands ? rows : columns; }
  int64_t teamThreads() const { return roles == WarpRoles::cooperative ? 256 : 128; }
  int64_t accumulators() const { return rows * columns / teamThreads(); } ///< of a thread
  /// How the warps that multiply see the kernel.
  LoweringOptions consumers(LoweringOptions options) const {
    options.warps = static_cast<int>(teamThreads() / 32);
    options.warpgroups = true;
    options.swapsOperands = swapsOperands;
    return options;
  }
};
bool operator==(const WarpPlan &a, const WarpPlan &b);
llvm::hash_code hash_value(const WarpPlan &plan);

/// Attributes that plan-warps writes, see the dialect: on a kernel, and on a store.
constexpr llvm::StringLiteral kWarpsAttr = "tile_gpu.warps", kBoxedAttr = "tile_gpu.boxed";

/// The kernel's plan; none where its warps are alike.
std::optional<WarpPlan> planOf(mlir::func::FuncOp kernel);
/// `boxed`: the store that the copy engine makes, where the plan has one.
void setPlan(mlir::func::FuncOp kernel, const WarpPlan &plan, mlir::Operation *boxed);
/// All warps do the same: says so and why on the kernel.
void setAlike(mlir::func::FuncOp kernel, llvm::StringRef reason);
/// The store that the copy engine makes; null where there is none.
mlir::Operation *boxedStoreOf(mlir::func::FuncOp kernel);

} // namespace tilewright::nvptx
