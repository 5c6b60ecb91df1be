#include "compiler/cpu/nest_reductions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

namespace tilewright::cpu {

using namespace mlir;

static Type elementOf(tile::ReduceOp reduce) { return getElementTypeOrSelf(reduce.getValue().getType()); }

static arith::AtomicRMWKind kindOf(tile::ReduceOp reduce) {
  const bool isFloat = isa<FloatType>(elementOf(reduce));
  switch (reduce.getKind()) {
  case tile::ReductionKind::sum:
    return isFloat ? arith::AtomicRMWKind::addf : arith::AtomicRMWKind::addi;
  case tile::ReductionKind::max:
    return isFloat ? arith::AtomicRMWKind::maximumf : arith::AtomicRMWKind::maxs;
  case tile::ReductionKind::min:
    return isFloat ? arith::AtomicRMWKind::minimumf : arith::AtomicRMWKind::mins;
  }
  llvm_unreachable("every kind has a case");
}

Value neutralElement(ImplicitLocOpBuilder &b, tile::ReduceOp reduce) {
  return arith::getIdentityValue(kindOf(reduce), elementOf(reduce), b, b.getLoc());
}

Value combine(ImplicitLocOpBuilder &b, tile::ReduceOp reduce, Value x, Value y) {
  Value combined = arith::getReductionOp(kindOf(reduce), b, b.getLoc(), x, y);
  // Which of two zeros is the larger does not matter; to find out takes two instructions of five.
  if (auto most = combined.getDefiningOp<arith::MaximumFOp>()) most.setFastmath(arith::FastMathFlags::nsz);
  if (auto least = combined.getDefiningOp<arith::MinimumFOp>()) least.setFastmath(arith::FastMathFlags::nsz);
  return combined;
}

static bool isExtreme(tile::ReduceOp reduce) {
  return isa<FloatType>(elementOf(reduce)) && reduce.getKind() != tile::ReductionKind::sum;
}

static bool hasNans(tile::ReduceOp reduce) {
  return isExtreme(reduce) && !reduce->hasAttr(tile::kNumbersOnlyAttr);
}

/// The larger or smaller one; y where x is a NaN.
static Value furtherOf(ImplicitLocOpBuilder &b, tile::ReduceOp reduce, Value x, Value y) {
  const bool isMax = reduce.getKind() == tile::ReductionKind::max;
  auto further = isMax ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT;
  return b.create<arith::SelectOp>(b.create<arith::CmpFOp>(further, x, y), x, y);
}

unsigned lanesCarried(tile::ReduceOp reduce) { return hasNans(reduce) ? 2 : 1; }

static std::pair<Value, Value> halvesOf(ImplicitLocOpBuilder &b, Value vector) {
  const int64_t half = cast<VectorType>(vector.getType()).getNumElements() / 2;
  SmallVector<int64_t> low, high;
  for (int64_t i = 0; i < half; ++i) {
    low.push_back(i);
    high.push_back(half + i);
  }
  return {b.create<vector::ShuffleOp>(vector, vector, low),
          b.create<vector::ShuffleOp>(vector, vector, high)};
}

/// All ones where one of two lanes is a NaN, of the strip's halves if these are whole registers.
static Value nansOf(Emitter &e, Value strip) {
  const int64_t lanes = cast<VectorType>(strip.getType()).getNumElements();
  Value low = strip, high = strip;
  if (lanes % (2 * e.machine.lanes) == 0) std::tie(low, high) = halvesOf(e.b, strip);
  Value isNan = e.b.create<arith::CmpFOp>(arith::CmpFPredicate::UNO, low, high);
  return e.b.create<arith::ExtSIOp>(withElement(isNan.getType(), e.b.getI32Type()), isNan);
}

SmallVector<Value> beginLanes(Emitter &e, tile::ReduceOp reduce, int64_t lanes) {
  Value begin = e.splat(neutralElement(e.b, reduce), lanes);
  if (!hasNans(reduce)) return {begin};
  const bool inHalves = lanes % (2 * e.machine.lanes) == 0;
  Value none = e.b.create<arith::ConstantOp>(e.b.getI32IntegerAttr(0));
  return {begin, e.splat(none, inHalves ? lanes / 2 : lanes)};
}

SmallVector<Value> addLanes(Emitter &e, tile::ReduceOp reduce, ValueRange carried, Value strip) {
  if (!isExtreme(reduce)) return {combine(e.b, reduce, carried[0], strip)};
  SmallVector<Value> next{furtherOf(e.b, reduce, strip, carried[0])};
  if (hasNans(reduce)) next.push_back(e.b.create<arith::OrIOp>(carried[1], nansOf(e, strip)));
  return next;
}

static Value reduceLanes(ImplicitLocOpBuilder &b, tile::ReduceOp reduce, Value vector) {
  for (int64_t left = cast<VectorType>(vector.getType()).getNumElements(); left > 1; left /= 2) {
    auto [low, high] = halvesOf(b, vector);
    vector = isExtreme(reduce) ? furtherOf(b, reduce, low, high) : combine(b, reduce, low, high);
  }
  return b.create<vector::ExtractOp>(vector, ArrayRef<int64_t>{0});
}

Value endLanes(Emitter &e, tile::ReduceOp reduce, ValueRange carried) {
  Value reduced = reduceLanes(e.b, reduce, carried[0]);
  if (!hasNans(reduce)) return reduced;
  Value nans = e.b.create<vector::ReductionOp>(vector::CombiningKind::OR, carried[1]);
  Value none = e.b.create<arith::ConstantOp>(e.b.getI32IntegerAttr(0));
  Value isNan = e.b.create<arith::CmpIOp>(arith::CmpIPredicate::ne, nans, none);
  auto type = cast<FloatType>(elementOf(reduce));
  Value nan =
      e.b.create<arith::ConstantOp>(e.b.getFloatAttr(type, APFloat::getNaN(type.getFloatSemantics())));
  return e.b.create<arith::SelectOp>(isNan, nan, reduced);
}

} // namespace tilewright::cpu
