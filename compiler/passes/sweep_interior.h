#pragma once

#include <functional>

#include "compiler/passes/kept_exponentials.h"

namespace tilewright {

/// A loop over blocks of columns: for i in [begin, end), the block that begins at `column(i)`.
struct BlockLoop {
  using ToColumn = std::function<mlir::Value(TileBuilder &, mlir::Value)>;
  mlir::Value begin, end;
  ToColumn column = [](TileBuilder &, mlir::Value i) { return i; };
};

/// Which blocks of a row each loop of a sweep goes over. Those of the interior need no masks. Each of
/// `partners` takes every so many-th block. One position, which all rows compare theirs with, may be left
/// out, and its block of the interior with it:
///
///     until:   the interior, [0, end), without that block
///     small:   smaller blocks that need no masks: of that block, and [end, near)
///     behind:  smaller blocks with masks: the one with the position, and what is left of the row
class SweepInterior {
public:
  /// `near`: null where no small blocks go without masks.
  SweepInterior(TileBuilder &b, int64_t block, int64_t partners, mlir::Value end, mlir::Value near);

  int64_t block() const { return block_; }
  /// Columns from one of a partner's blocks to the next.
  int64_t stride() const { return block_ * partners_; }
  KeptInterior bounds() const { return {end_, near_, position_}; }
  /// That of this partner's blocks.
  mlir::Value first() const { return first_; }

  /// The interior ends at `end`.
  void shorten(mlir::Value end) { end_ = end; }
  /// Once the interior has its end: the loops leave out the block with this position, if it is one of this
  /// partner's; null: none.
  void leaveOut(mlir::Value position);

  /// Blocks of the interior, from i = `begin` to where the one at `column` begins.
  BlockLoop until(mlir::Value begin, mlir::Value column);
  /// Whole small blocks, `rest` columns each, that need no masks: those cut from the block that was left out,
  /// then those up to `near`, but for the one with the position. `isThere`: a condition for there being any;
  /// null: true.
  BlockLoop small(int64_t rest, mlir::Value isThere);
  /// The block that was left out, or what `small` has left of it, and what is behind the interior, of which
  /// each partner takes every so many-th block up to `width`.
  BlockLoop behind(int64_t rest, mlir::Value width);

  /// Where a block of this partner's that begins at `column` has its place among its own.
  mlir::Value placeOf(TileBuilder &b, mlir::Value column) const;
  /// A partner's first block of so many columns.
  static mlir::Value firstColumn(TileBuilder &b, int64_t block, int64_t partners);

private:
  mlir::Value maskSmall(int64_t rest, mlir::Value isCut, mlir::Value cut, mlir::Value count);

  TileBuilder &b;
  int64_t block_, partners_;
  mlir::Value end_, near_, first_;
  mlir::Value tail_;                   ///< where the blocks begin that need masks; null: at the end
  mlir::Value position_;               ///< left out, with the block that begins at `skipped_`
  mlir::Value isSkipped_, skipped_;    ///< else that is the end
  mlir::Value masked_, maskedColumns_; ///< what is gone over ahead of the tail
};

} // namespace tilewright
