#pragma once

#include "compiler/nvptx/threads/function_lowering.h"

namespace tilewright::nvptx {

/// Threads that run programs together: a whole CTA, or some of its warps.
struct Team {
  Num thread;       ///< this thread's number among them, i32
  Num sharedMemory; ///< address (i32) of the shared memory that they exchange values in
  Value barrier;    ///< number (i32) of the barrier that they meet at; null: all threads of the CTA are meant
};

/// Brings blocks that loads beside a product read to the second-level cache while the product runs.
void prefetchBeside(Lowering &lowering, tile::ContractOp product);

/// Rewrites a kernel for a team of warps that have a role, and run one program after the other.
class TeamLowering {
public:
  TeamLowering(mlir::func::FuncOp kernel, const LoweringOptions &options, Emitter &emitter)
      : walk(kernel, options, emitter), e(emitter) {}
  Lowering &lowering() { return walk.lowering(); }

  /// Code for the team begins where the builder is.
  void enter(mlir::func::FuncOp lowered, const Team &team);
  /// Ops of the kernel that are the same for every program.
  mlir::LogicalResult lowerInvariant();
  /// Without this (i1), the same for every program, none does anything; null where there is no such
  /// condition. Programs that follow count on it.
  Value invariantCondition();
  /// The other ops, for the program with these numbers along the grid's axes (i64).
  mlir::LogicalResult lowerProgram(llvm::ArrayRef<Num> programIds, WarpRole &role);
  /// The ops of a block that stand behind `op`.
  mlir::LogicalResult lowerAfter(mlir::Operation *op);
  /// As FunctionLowering's.
  mlir::LogicalResult within(mlir::Block *block, llvm::function_ref<mlir::LogicalResult()> body) {
    return walk.within(block, body);
  }

private:
  Value invariantPart(Value condition);

  FunctionLowering walk;
  Emitter &e;
};

} // namespace tilewright::nvptx
