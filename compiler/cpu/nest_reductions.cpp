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

Value reduceLanes(ImplicitLocOpBuilder &b, tile::ReduceOp reduce, Value vector) {
  for (int64_t half = cast<VectorType>(vector.getType()).getNumElements() / 2; half >= 1; half /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < half; ++i) {
      low.push_back(i);
      high.push_back(half + i);
    }
    Value x = b.create<vector::ShuffleOp>(vector, vector, low);
    Value y = b.create<vector::ShuffleOp>(vector, vector, high);
    vector = combine(b, reduce, x, y);
  }
  return b.create<vector::ExtractOp>(vector, ArrayRef<int64_t>{0});
}

} // namespace tilewright::cpu
