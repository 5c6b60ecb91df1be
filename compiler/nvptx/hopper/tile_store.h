#pragma once

#include "compiler/nvptx/threads/lowering.h"

namespace tilewright::nvptx {

/// Boxes that warps hand to the copy engine, which writes them to global memory while the threads go on: the
/// 16 rows that a warp holds of 64, of 128 bytes, their 16-byte chunks permuted as in a StagedOperand. Each
/// warp has some boxes and fills them in turn, so that none waits for another.
struct StoreBoxes {
  static constexpr int64_t kRows = 16, kRowBytes = 128, kBoxBytes = kRows * kRowBytes;

  Num memory; ///< i32, of all warps, a multiple of 1024
  Num warp;   ///< i32: of the CTA, which this thread is in
  Value map;  ///< pointer to the tensor map of the matrix that is stored to
  int64_t perWarp;
};

/// A store, or an addition of fp32 numbers, of accumulators that warpgroups hold, by way of boxes. What
/// lies outside the matrix is dropped. From registers the threads of a warp would write 8 pieces of 16 bytes
/// at a time, and wait for each other; the copy engine writes whole lines.
class TileStore : public StoreTarget {
public:
  TileStore(Lowering &lowering, mlir::Operation *op, const StoreBoxes &boxes);
  /// Whether it can make this store; of tiles as a product leaves them.
  static bool canStore(mlir::Operation *op);
  /// Boxes have been read, so that the CTA may end.
  static void finish(Emitter &e);

  Piece piece() const override;
  void open(int64_t row, int64_t column) override;
  void store(int64_t row, int64_t column, llvm::ArrayRef<SmallVector<Value>> values) override;
  void close(int64_t row, int64_t column) override;

private:
  Num box() const;
  void handOver(Num toRow, Num toColumn);
  /// i32: the warp's first position of the matrix along an axis.
  Num firstOfWarp(Value begin, const layout::AxisMap &map);
  void storeWords(int64_t row, int64_t column, llvm::ArrayRef<Value> registers);
  void storePairs(int64_t row, int64_t column, llvm::ArrayRef<Value> registers);

  Lowering &lowering;
  Emitter &e;
  mlir::Operation *op;
  Type element;
  TileLayout layout;
  StoreBoxes boxes;
  Num firstRow, firstColumn; ///< see firstOfWarp
  int64_t opened = 0;        ///< boxes so far
};

} // namespace tilewright::nvptx
