#pragma once

#include "compiler/nvptx/threads/lowering.h"

namespace tilewright::nvptx {

/// A reduction in progress: what one thread's registers of each row (or column) come to.
class RegisterSums {
public:
  RegisterSums(Lowering &lowering, tile::ReduceOp op);

  void add(int64_t row, int64_t column, Value element);
  Value combine(Value a, Value b);

  /// From here on this is the place of a maximum (see `placedMaximum`) that is summed up beside it, and
  /// `find` stands for `add`, ahead of the maximum's.
  void follow(RegisterSums &maximum) { followed = &maximum; }
  bool follows() const { return followed; }
  void find(int64_t row, int64_t column);
  /// Drops places of what turned out not to be a row's maximum; `own` was the thread's own.
  void keepWhere(llvm::ArrayRef<Value> own);
  RegisterSums &maximum() { return *followed; }

  Value neutral();
  mlir::Operation *operation() { return op; }
  bool sumsRows() const { return along == 1; }
  Value operand() { return op.getValue(); }
  Value result() { return op.getResult(); }
  SmallVector<Value> &values() { return sums; }
  /// The axis that is reduced, and the one that is kept.
  const layout::AxisMap &reduced() const { return along == 1 ? *layout.columns : *layout.rows; }
  const layout::AxisMap &kept() const { return along == 1 ? *layout.rows : *layout.columns; }

private:
  Value liveElement(int64_t reducedRegister, Value element, Value otherwise);

  Lowering &lowering;
  Emitter &e;
  tile::ReduceOp op;
  RegisterSums *followed = nullptr;
  int64_t along;
  TileLayout layout;
  SmallVector<Value> sums;
};

/// The maximum whose place an op finds, min_j (x_ij = max_k x_ik ? p_ij : largest i32): both are then found
/// in one pass over x. p are positions of columns, or any i32 numbers. Null if the op does something else.
tile::ReduceOp placedMaximum(mlir::Operation *op);

/// The registers' sums of one tile's reductions to those of whole rows (or columns), the same in every thread
/// that holds the row: by shuffles within a warp, through shared memory between warps.
void combineAcrossThreads(Lowering &lowering, llvm::MutableArrayRef<RegisterSums> sums);

/// For each register of a tile its row and column, and whether this thread tells others what is there: of
/// those that hold the same element one does, and none tells of padding.
void forEachTold(
    Lowering &lowering, TileLayout layout,
    llvm::function_ref<void(int64_t row, int64_t column, Num atRow, Num atColumn, Value tells)> body);

/// A tile's registers in another layout, through shared memory; `transposed`: rows become columns. Either
/// layout may have replicas and padding.
SmallVector<Value> redistribute(Lowering &lowering, ValueRange values, TileLayout from, TileLayout to,
                                bool transposed);

} // namespace tilewright::nvptx
