#include "compiler/passes/sweep_interior.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tilewright {

SweepInterior::SweepInterior(TileBuilder &b, int64_t block, int64_t partners, Value end, Value near)
    : b(b), block_(block), partners_(partners), end_(end), near_(near),
      first_(firstColumn(b, block, partners)) {}

Value SweepInterior::firstColumn(TileBuilder &b, int64_t block, int64_t partners) {
  if (partners == 1) return b.index(0);
  return b.create<arith::MulIOp>(b.create<tile::PartnerOp>(b.getIndexType()), b.index(block));
}

void SweepInterior::leaveOut(Value position) {
  position_ = position;
  if (!position) return;
  Value at = b.create<tile::ExtractOp>(position);
  isSkipped_ = b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, at, end_);
  Value begin = b.create<arith::SubIOp>(at, b.create<arith::RemUIOp>(at, b.index(block_)));
  if (partners_ > 1) {
    Value among = b.create<arith::RemUIOp>(begin, b.index(stride()));
    Value isMine = b.create<arith::CmpIOp>(arith::CmpIPredicate::eq, among, first_);
    isSkipped_ = b.create<arith::AndIOp>(isSkipped_, isMine);
  }
  skipped_ = b.create<arith::SelectOp>(isSkipped_, begin, end_);
  masked_ = skipped_;
  maskedColumns_ = b.create<arith::SelectOp>(isSkipped_, b.index(stride()), b.index(0));
}

BlockLoop SweepInterior::until(Value begin, Value column) {
  if (!position_) return {begin, column};
  Value isBefore = b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, skipped_, column);
  Value leftOut = b.create<arith::SelectOp>(isBefore, b.index(stride()), b.index(0));
  Value end = b.create<arith::SubIOp>(column, leftOut);
  return {begin, end, [this](TileBuilder &b, Value at) -> Value {
            Value isBehind = b.create<arith::CmpIOp>(arith::CmpIPredicate::sge, at, skipped_);
            Value leftOut = b.create<arith::SelectOp>(isBehind, b.index(stride()), b.index(0));
            return b.create<arith::AddIOp>(at, leftOut);
          }};
}

BlockLoop SweepInterior::small(int64_t rest, Value isThere) {
  Value count = b.create<arith::SubIOp>(near_, end_); // of columns behind the interior
  if (isThere) count = b.create<arith::SelectOp>(isThere, count, b.index(0));
  tail_ = b.createOrFold<arith::AddIOp>(end_, count);
  if (!position_)
    return {b.index(0), count,
            [this](TileBuilder &b, Value at) -> Value { return b.create<arith::AddIOp>(end_, at); }};

  Value isCut = isThere ? b.create<arith::AndIOp>(isSkipped_, isThere) : isSkipped_;
  Value cut = b.create<arith::SelectOp>(isCut, b.index(block_), b.index(0));
  Value all = b.createOrFold<arith::AddIOp>(cut, count);
  Value hole = maskSmall(rest, isCut, cut, count);
  Value hasHole = b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, hole, all);
  Value last = b.create<arith::SubIOp>(all, b.create<arith::SelectOp>(hasHole, b.index(rest), b.index(0)));
  return {b.index(0), last, [this, hole, cut, rest](TileBuilder &b, Value at) -> Value {
            Value isPast = b.create<arith::CmpIOp>(arith::CmpIPredicate::sge, at, hole);
            Value past = b.create<arith::SelectOp>(isPast, b.index(rest), b.index(0));
            Value place = b.create<arith::AddIOp>(at, past);
            Value isOfCut = b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, place, cut);
            Value ofOthers = b.create<arith::SubIOp>(end_, cut);
            Value begin = b.create<arith::SelectOp>(isOfCut, skipped_, ofOthers);
            return b.create<arith::AddIOp>(begin, place);
          }};
}

/// Leaves the small block with the position, if it is one of `small`'s, to `behind`. Its place among them; if
/// it is none, the end of all.
Value SweepInterior::maskSmall(int64_t rest, Value isCut, Value cut, Value count) {
  Value at = b.create<tile::ExtractOp>(position_);
  Value small = b.create<arith::SubIOp>(at, b.create<arith::RemUIOp>(at, b.index(rest)));
  Value isBehind =
      b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, b.create<arith::SubIOp>(at, end_), count);
  Value isMasked = b.create<arith::OrIOp>(isCut, isBehind);
  masked_ = b.create<arith::SelectOp>(isMasked, small, masked_);
  maskedColumns_ = b.create<arith::SelectOp>(isMasked, b.index(rest), maskedColumns_);
  Value begin = b.create<arith::SelectOp>(isCut, skipped_, b.create<arith::SubIOp>(end_, cut));
  Value all = b.createOrFold<arith::AddIOp>(cut, count);
  return b.create<arith::SelectOp>(isMasked, b.create<arith::SubIOp>(small, begin), all);
}

/// Of the blocks behind the interior the last partner begins, as those before it may have one block of the
/// interior more. One loop does both: it begins as many steps ahead of them as there are masked columns.
BlockLoop SweepInterior::behind(int64_t rest, Value width) {
  Value begin = tail_ ? tail_ : end_;
  if (partners_ > 1) {
    Value last = b.index((partners_ - 1) * rest);
    begin =
        b.createOrFold<arith::AddIOp>(begin, b.create<arith::SubIOp>(last, firstColumn(b, rest, partners_)));
  }
  if (!position_) return {begin, width};
  return {b.create<arith::SubIOp>(begin, maskedColumns_), width,
          [this, begin](TileBuilder &b, Value at) -> Value {
            Value isBehind = b.create<arith::CmpIOp>(arith::CmpIPredicate::sge, at, begin);
            Value distance = b.create<arith::SubIOp>(begin, at);
            Value left = partners_ == 1 ? distance : b.create<arith::DivSIOp>(distance, b.index(partners_));
            Value blockEnd = partners_ == 1 ? Value(b.create<arith::AddIOp>(masked_, maskedColumns_))
                                            : b.create<arith::AddIOp>(skipped_, b.index(block_));
            return b.create<arith::SelectOp>(isBehind, at, b.create<arith::SubIOp>(blockEnd, left));
          }};
}

Value SweepInterior::placeOf(TileBuilder &b, Value column) const {
  if (partners_ == 1) return column;
  return b.create<arith::DivUIOp>(b.create<arith::SubIOp>(column, first_), b.index(partners_));
}

} // namespace tilewright
