#pragma once

#include "compiler/nvptx/threads/chip_copies.h"
#include "compiler/nvptx/threads/partners.h"
#include "compiler/nvptx/threads/sinks.h"
#include "compiler/nvptx/threads/tile_operands.h"

namespace tilewright::nvptx {

Num addressOfSharedMemory(Emitter &e); ///< i32

/// The function that a kernel becomes, without a body. Each view is passed as its address and sizes.
mlir::func::FuncOp declareLowered(mlir::func::FuncOp kernel, mlir::OpBuilder &builder,
                                  llvm::ArrayRef<Type> furtherParameters = {});

/// Rewrites one kernel as the program of one thread of a CTA: the walk over its ops.
///
/// Element-wise ops are evaluated on demand (Elements). What drives them are *sinks*: stores and reductions,
/// collected and emitted side by side (Sinks). Loads are emitted where they stand, or, of memory that the
/// kernel does not write, on demand in kernels whose registers are full of accumulators.
class FunctionLowering {
public:
  FunctionLowering(mlir::func::FuncOp kernel, const LoweringOptions &options, Emitter &emitter);
  Lowering &lowering() { return lowering_; }

  /// One CTA runs one program.
  mlir::LogicalResult run();

  // ---- for TeamLowering, instead of `run` ----

  /// Ops that were lowered already, for all programs.
  bool isSkipped(mlir::Operation *op) const { return skipped.contains(op); }
  void skip(mlir::Operation *op) { skipped.insert(op); }
  /// What follows is the program with these numbers along the grid's axes (i64), as far as a role has it.
  void enterProgram(llvm::ArrayRef<Num> programIds, WarpRole &role);
  mlir::LogicalResult lowerOps(mlir::Block::iterator begin, mlir::Block::iterator end);
  void flush() { sinks.flush(); }
  /// Lowers what `body` does into a block; what is evaluated there is not known behind it.
  mlir::LogicalResult within(mlir::Block *block, llvm::function_ref<mlir::LogicalResult()> body);

private:
  void placeOnChip();
  void orderPrograms();
  void describe(mlir::func::FuncOp lowered) const; ///< what the launch must know
  mlir::LogicalResult checkShared();

  Num programId(uint64_t axis);
  mlir::LogicalResult lowerOp(mlir::Operation &op);
  mlir::LogicalResult lowerScalar(mlir::Operation &op);
  mlir::LogicalResult lowerFor(mlir::scf::ForOp loop);
  void loadAheadOf(mlir::scf::ForOp loop);
  mlir::LogicalResult lowerIf(mlir::scf::IfOp op);
  mlir::LogicalResult lowerRegion(
      mlir::Region &from, mlir::Block *to, llvm::function_ref<void()> atEnd = [] {});

  void lowerLoad(mlir::Operation *op);
  void lowerProduct(mlir::Operation &op);
  void lowerMove(mlir::Operation &op, bool transposed);
  void lowerExtract(tile::ExtractOp op);
  void lowerExchange(tile::ExchangeOp op);
  MemoryView onChipView(tile::OnChipOp op);

  Lowering lowering_;
  Emitter &e;
  Sinks sinks;
  ChipCopies copies;
  Partners partners;
  CopiesAhead ahead;
  mlir::DenseMap<mlir::Operation *, int64_t> onChip; ///< byte offsets of on_chip ops' vectors
  WarpRole *role = nullptr;
  SmallVector<Num> programIds; ///< where they are not the CTA's
  llvm::SmallPtrSet<mlir::Operation *, 16> skipped;
};

} // namespace tilewright::nvptx
