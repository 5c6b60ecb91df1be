#pragma once

#include "compiler/passes/sweep_schedule.h"
#include "compiler/passes/tile_builder.h"
#include "llvm/ADT/DenseMap.h"

namespace tilewright {

/// A block of exponentials: kept terms times one factor.
struct KeptBlockTerms {
  mlir::Value terms, factor;
};

/// Where a sweep needs no masks: up to `end` in blocks, from there to `near`, if there is one, in smaller
/// ones; and the position that it leaves out.
struct KeptInterior {
  mlir::Value end, near, position;
};

/// Where a block has its terms, and its m_b.
struct KeptPlace {
  mlir::Value terms, maximum;
};

/// The exponentials of a sweep that makes a row's maximum and sum, kept for later sweeps of the row. With the
/// shift m_b of each block b, the largest number up to its end or of some blocks before, where a is no less
/// than the row's maximum:
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
  KeptInterior interior;
  mlir::Value kept;    ///< the columns before this one are there
  bool hasCut = false; ///< and smaller blocks that need no masks

  /// Chooses the first sum of rows of `width` that something follows from.
  void choose(llvm::ArrayRef<ScheduledOp> ops, mlir::Value width);
  /// Whether a sweep that leaves out this position makes something that follows from what is kept.
  bool serve(llvm::ArrayRef<mlir::Operation *> ops, mlir::Value leftOut) const;
  /// Reserves memory in a sweep over the interior in blocks of so many columns. If there are smaller blocks
  /// as well, `cut` columns each, of less than two blocks, there is room for them beside.
  void begin(TileBuilder &b, KeptInterior all, int64_t block, int64_t cut);

  /// Of the block that begins at `column`; of the smaller block with so many columns of such ahead of it.
  KeptPlace placeOf(TileBuilder &b, mlir::Value column) const;
  KeptPlace placeOfCut(TileBuilder &b, mlir::Value ahead) const;

  void storeTerms(TileBuilder &b, mlir::Value e, KeptPlace place) const;
  void storeMaximum(TileBuilder &b, mlir::Value max, KeptPlace place) const;
  /// What `exp`, one of `of`, is in a block.
  KeptBlockTerms load(TileBuilder &b, mlir::Operation *exp, mlir::RankedTensorType block,
                      KeptPlace place) const;

private:
  int64_t blockColumns = 0, cutColumns = 0, room = 0;
};

/// Whether `op` compares the columns' positions with one number that all rows have in common: it is the same
/// in all columns but one.
bool comparesPosition(mlir::Operation *op);

} // namespace tilewright
