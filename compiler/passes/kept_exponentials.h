#pragma once

#include "compiler/passes/sweep_schedule.h"
#include "compiler/passes/tile_builder.h"
#include "llvm/ADT/DenseMap.h"

namespace tilewright {

/// The exponentials of a sweep that makes a row's maximum and sum, kept for later sweeps of the row. With the
/// largest number m_b up to the end of each block b, where a is no less than the row's maximum:
///
///     e = exp(x - m_b)        exp(x - a) = e · exp(m_b - a)
///
/// All sweeps of the row have the same blocks.
struct KeptExponentials {
  int64_t columns = 0;                        ///< that there is room for; 0: nothing is kept
  mlir::Operation *sum = nullptr;             ///< the max_sum_exp whose terms are kept
  llvm::DenseMap<mlir::Operation *, bool> of; ///< the exponentials that follow from them; true: where no
                                              ///< column has the position that the sweep compares with

  // Once the sweep of `sum` has begun:
  mlir::Value terms, maxima; ///< memory for each e, and each block's m_b
  mlir::Value end, position; ///< of the interior, and what it leaves out
  mlir::Value kept;          ///< the columns before this one are there

  /// Chooses the first sum of rows of `width` that something follows from.
  void choose(llvm::ArrayRef<ScheduledOp> ops, mlir::Value width);
  /// Whether a sweep that leaves out this position makes something that follows from what is kept.
  bool serve(llvm::ArrayRef<mlir::Operation *> ops, mlir::Value leftOut) const;
  /// Reserves memory in a sweep over the interior up to `end` in blocks of so many columns.
  void begin(TileBuilder &b, mlir::Value interiorEnd, mlir::Value leftOut, int64_t block);

  void store(TileBuilder &b, mlir::Value e, mlir::Value max, mlir::Value column) const;
  /// What `exp`, one of `of`, is in a block.
  mlir::Value load(TileBuilder &b, mlir::Operation *exp, mlir::RankedTensorType block,
                   mlir::Value column) const;
};

/// Whether `op` compares the columns' positions with one number that all rows have in common: it is the same
/// in all columns but one.
bool comparesPosition(mlir::Operation *op);

} // namespace tilewright
