#pragma once

#include "compiler/nvptx/threads/lowering.h"

namespace tilewright::nvptx {

/// Columns that a loop carries and to which it adds a block's reduction each time. While the loop runs each
/// thread keeps its own part of them; threads come together once, behind it:
///
///     a ← a + Σ_c x         parts are added (likewise max and min)
///     m ← max(m, max_c x),  s ← s·exp(m_old - m) + Σ_c exp(x - m)        the row's maximum M is found, then
///                           the parts s·exp(m - M) are added             (with 0 for an m of -∞)
class DeferredSums {
public:
  DeferredSums(Lowering &lowering, mlir::scf::ForOp loop);

  bool contains(mlir::Operation *reduce) const;
  /// What each thread starts from: a sum's initial value counts once.
  SmallVector<Value> initial(int64_t carried, SmallVector<Value> registers);
  /// The carried tiles' registers behind the loop.
  void combine(llvm::MutableArrayRef<SmallVector<Value>> registers);

private:
  struct Sum {
    int64_t carried;
    tile::ReduceOp reduce;
    int64_t maximum = -1; ///< the carried maximum that scales it
  };
  void findPlain();
  void findScaled();
  bool matchScaled(int64_t carried, Sum &sum);
  void rescale(Sum &sum, SmallVector<Value> &sums, mlir::ArrayRef<Value> before, mlir::ArrayRef<Value> after);

  Lowering &lowering;
  mlir::scf::ForOp loop;
  SmallVector<Sum> sums;
};

} // namespace tilewright::nvptx
