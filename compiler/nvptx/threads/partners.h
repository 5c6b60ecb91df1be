#pragma once

#include "compiler/nvptx/threads/lowering.h"

namespace tilewright::nvptx {

/// What CTAs of a cluster that share a program tell each other. Where all exchanges lie in one block, and so
/// happen once, each has a barrier in shared memory that counts the bytes that arrive: nobody waits for
/// partners but for what they tell. Other exchanges lie between two barriers of the cluster, which also make
/// what was written to memory before seen, and cost a fence of the whole GPU's memory each.
class Partners {
public:
  explicit Partners(Lowering &lowering);

  /// Takes the shared memory that the barriers need.
  void place();
  /// Before the operations of a block.
  void enter(mlir::Block *block);
  /// `places`: addresses of the vectors, in this CTA, that `values` go to.
  void exchange(tile::ExchangeOp op, llvm::ArrayRef<Value> values, llvm::ArrayRef<Num> places);

private:
  int64_t bytesOfOne(tile::ExchangeOp op) const; ///< that one partner tells
  Num barrierOf(tile::ExchangeOp op);

  Lowering &lowering;
  int64_t count = 1;
  SmallVector<tile::ExchangeOp> counted;               ///< those that have barriers
  llvm::DenseMap<mlir::Operation *, int64_t> barriers; ///< byte offsets
  bool isAwaited = false;                              ///< that all partners have begun
};

} // namespace tilewright::nvptx
