#include "compiler/passes/block_reductions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using tilewright::tile::ReductionKind;

namespace tilewright {

TypedAttr neutral(OpBuilder &b, ReductionKind kind, Type element) {
  bool lowest = kind == ReductionKind::max;
  if (auto type = dyn_cast<FloatType>(element)) {
    if (kind == ReductionKind::sum) return b.getFloatAttr(type, 0);
    return b.getFloatAttr(type, APFloat::getInf(type.getFloatSemantics(), lowest));
  }
  unsigned bits = element.getIntOrFloatBitWidth();
  if (kind == ReductionKind::sum) return b.getIntegerAttr(element, 0);
  return b.getIntegerAttr(element, lowest ? APInt::getSignedMinValue(bits) : APInt::getSignedMaxValue(bits));
}

Value combine(TileBuilder &b, ReductionKind kind, Value x, Value y) {
  bool isFloat = isa<FloatType>(tile::elementOf(x.getType()));
  switch (kind) {
  case ReductionKind::sum:
    return isFloat ? b.create<arith::AddFOp>(x, y).getResult() : b.create<arith::AddIOp>(x, y);
  case ReductionKind::max:
    return isFloat ? b.create<arith::MaximumFOp>(x, y).getResult() : b.create<arith::MaxSIOp>(x, y);
  case ReductionKind::min:
    return isFloat ? b.create<arith::MinimumFOp>(x, y).getResult() : b.create<arith::MinSIOp>(x, y);
  }
  llvm_unreachable("all kinds are above");
}

Value finiteOrZero(TileBuilder &b, Value m) {
  Type f32 = b.getF32Type();
  Value lowest = b.full(m, neutral(b, ReductionKind::max, f32));
  Value isLowest = b.create<arith::CmpFOp>(arith::CmpFPredicate::OEQ, m, lowest);
  return b.create<arith::SelectOp>(isLowest, b.full(m, f32, 0), m);
}

Value exponentials(TileBuilder &b, Value x, Value m) {
  Value distance = b.create<arith::SubFOp>(x, b.spread(m, x));
  return b.create<math::ExpOp>(distance, arith::FastMathFlags::afn);
}

MaxSumExp combineMaxSumExp(TileBuilder &b, Value m, Value s, Value x) {
  Value newMax = combine(b, ReductionKind::max, m, b.reduce(ReductionKind::max, x));
  Value shift = finiteOrZero(b, newMax);
  Value scale = b.create<math::ExpOp>(b.create<arith::SubFOp>(m, shift));
  Value scaled = b.create<arith::MulFOp>(s, scale);
  Value terms = exponentials(b, x, shift);
  return {newMax, b.create<arith::AddFOp>(scaled, b.reduce(ReductionKind::sum, terms)), terms};
}

SmallVector<Value> initialValues(TileBuilder &b, Operation *op) {
  Value like = op->getResult(0);
  Type element = tile::elementOf(like.getType());
  if (auto reduce = dyn_cast<tile::ReduceOp>(op))
    return {b.full(like, neutral(b, reduce.getKind(), element))};
  return {b.full(like, neutral(b, ReductionKind::max, element)),
          b.full(like, neutral(b, ReductionKind::sum, element))};
}

} // namespace tilewright
