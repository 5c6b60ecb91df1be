#pragma once

#include "compiler/passes/block_reductions.h"
#include "compiler/passes/kept_exponentials.h"
#include "compiler/passes/lazy_shift.h"
#include "mlir/IR/IRMapping.h"

namespace tilewright {

/// What a loop does with blocks that are kept on chip: the place of each, and the block's column there.
struct KeptBlock {
  bool isLoaded = false; ///< else stored
  mlir::Value column;
  const llvm::DenseMap<mlir::Operation *, mlir::Value> *places = nullptr;
};

/// One iteration of a sweep's loop while it is made. An interior block has no column outside the row or any
/// view, nor the position that the sweep compares with.
class SweepBody {
public:
  SweepBody(TileBuilder &b, mlir::Value width, int64_t block, mlir::Value column, bool isInterior,
            bool missesPosition)
      : b_(b), width_(width), block_(block), column_(column), isInterior_(isInterior),
        missesPosition_(missesPosition) {}

  /// The reduction's values after this block. A max_sum_exp that carries three has a LazySum.
  llvm::SmallVector<mlir::Value> reduce(mlir::Operation *op, mlir::ValueRange carried);

  /// A LazySum takes the block with the shift that is there. Nothing of the sweep may be made behind it.
  void setLazy() { isLazy_ = true; }
  void setKept(KeptBlock kept) { kept_ = kept; }
  void setExponentials(const KeptExponentials *exponentials, KeptPlace place) {
    exponentials_ = exponentials, place_ = place;
  }

  /// Behind everything else of the block: no load has to wait for it.
  void keepExponentials();

  /// The same operation on this block. `cutView`, for one that writes, ends where the row does.
  void clone(mlir::Operation *op, mlir::Value cutView);

private:
  llvm::SmallVector<mlir::Value> addLazily(const LazySum &before, mlir::Value x, bool isKept);
  mlir::RankedTensorType blockType(mlir::RankedTensorType longType);
  mlir::Value shifted(mlir::Value column);
  bool scaleKept(mlir::Operation *op);
  void shiftLast(mlir::MutableOperandRange offsets);
  void moveToBlock(mlir::Operation *op, mlir::Value cutView);
  mlir::Value insideRow(mlir::Value x, tile::ReductionKind kind);
  mlir::Value columnInside();

  TileBuilder &b_;
  mlir::Value width_;
  int64_t block_;
  mlir::Value column_;
  bool isInterior_, missesPosition_, isLazy_ = false;
  mlir::IRMapping values_;
  KeptBlock kept_;
  const KeptExponentials *exponentials_ = nullptr;
  KeptPlace place_;                                   ///< of the block's exponentials
  mlir::Value termsMade_, shiftMade_;                 ///< to be kept
  llvm::DenseMap<mlir::Value, KeptBlockTerms> found_; ///< exponentials that were kept
  llvm::DenseMap<mlir::Value, bool> decided_;         ///< comparisons that come out alike in the whole block
  mlir::Value columnInside_;
};

} // namespace tilewright
