#include "compiler/nvptx/threads/deferred_sums.h"

#include <limits>

#include "compiler/nvptx/threads/elements.h"
#include "compiler/nvptx/threads/exchange.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tilewright::nvptx {

using namespace mlir;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool isSplat(Value value, float wanted) {
  const std::optional<APFloat> constant = constantOf(value);
  return constant && constant->isExactlyValue(wanted);
}

/// The operand of a commutative op beside `known`.
Value otherOperand(Operation *op, Value known) {
  if (op->getOperand(0) == known) return op->getOperand(1);
  return op->getOperand(1) == known ? op->getOperand(0) : Value();
}

bool combines(Operation *op, tile::ReductionKind kind) {
  switch (kind) {
  case tile::ReductionKind::sum:
    return isa<arith::AddFOp, arith::AddIOp>(op);
  case tile::ReductionKind::max:
    return isa<arith::MaximumFOp, arith::MaxSIOp>(op);
  case tile::ReductionKind::min:
    return isa<arith::MinimumFOp, arith::MinSIOp>(op);
  }
  return false;
}

/// A reduction of the loop's own along rows that only `user` takes.
tile::ReduceOp blockReduction(Value value, Operation *user, scf::ForOp loop) {
  auto reduce = value ? value.getDefiningOp<tile::ReduceOp>() : tile::ReduceOp();
  bool fits = reduce && reduce.getAxis() == 1 && value.hasOneUse() && *value.getUsers().begin() == user &&
              reduce->getBlock() == loop.getBody();
  return fits ? reduce : tile::ReduceOp();
}

} // namespace

DeferredSums::DeferredSums(Lowering &lowering, scf::ForOp loop) : lowering(lowering), loop(loop) {
  findPlain();
  findScaled();
  // A maximum that something else than a sum looks at must be the row's own in each iteration.
  const SmallVector<Sum> all = sums;
  llvm::erase_if(sums, [&](Sum &sum) {
    if (sum.maximum >= 0) return false;
    Operation *combined = loop.getYieldedValues()[sum.carried].getDefiningOp();
    bool isPrivate = combined->hasOneUse() && loop.getRegionIterArg(sum.carried).hasOneUse();
    return !isPrivate && llvm::none_of(all, [&](const Sum &s) { return s.maximum == sum.carried; });
  });
}

void DeferredSums::findPlain() {
  for (auto [carried, yielded] : llvm::enumerate(loop.getYieldedValues())) {
    Operation *op = yielded.getDefiningOp();
    if (!op || op->getBlock() != loop.getBody() || op->getNumOperands() != 2) continue;
    auto reduce = blockReduction(otherOperand(op, loop.getRegionIterArg(carried)), op, loop);
    if (reduce && combines(op, reduce.getKind())) sums.push_back({int64_t(carried), reduce});
  }
}

void DeferredSums::findScaled() {
  for (int64_t carried = 0; carried < int64_t(loop.getNumRegionIterArgs()); ++carried)
    if (Sum sum{carried, {}}; matchScaled(carried, sum)) sums.push_back(sum);
}

/// s·exp(m_old - g) + Σ exp(x - g) with g = (m = -∞ ? 0 : m), and no other use of what each thread has alone.
bool DeferredSums::matchScaled(int64_t carried, Sum &sum) {
  Value old = loop.getRegionIterArg(carried);
  auto add = loop.getYieldedValues()[carried].getDefiningOp<arith::AddFOp>();
  if (!add || !add->hasOneUse() || !old.hasOneUse()) return false;
  auto scaled = dyn_cast<arith::MulFOp>(*old.getUsers().begin());
  sum.reduce = scaled ? blockReduction(otherOperand(add, scaled), add, loop) : tile::ReduceOp();
  if (!sum.reduce || sum.reduce.getKind() != tile::ReductionKind::sum || !scaled->hasOneUse()) return false;
  auto factor = otherOperand(scaled, old).getDefiningOp<math::ExpOp>();
  auto terms = sum.reduce.getValue().getDefiningOp<math::ExpOp>();
  if (!factor || !terms || !factor->hasOneUse() || !terms->hasOneUse()) return false;
  auto change = factor.getOperand().getDefiningOp<arith::SubFOp>();
  auto distance = terms.getOperand().getDefiningOp<arith::SubFOp>();
  if (!change || !distance || !change->hasOneUse() || !distance->hasOneUse()) return false;
  auto broadcast = distance.getRhs().getDefiningOp<tile::BroadcastOp>();
  auto guarded = change.getRhs().getDefiningOp<arith::SelectOp>();
  Value base = broadcast ? broadcast.getValue() : distance.getRhs();
  if (!guarded || base != guarded.getResult() || !isSplat(guarded.getTrueValue(), 0)) return false;
  auto isEmpty = guarded.getCondition().getDefiningOp<arith::CmpFOp>();
  Value maximum = guarded.getFalseValue();
  if (!isEmpty || isEmpty.getPredicate() != arith::CmpFPredicate::OEQ || isEmpty.getLhs() != maximum ||
      !isSplat(isEmpty.getRhs(), -kInfinity))
    return false;
  auto isMaximum = [&](Sum &s) {
    return s.reduce.getKind() == tile::ReductionKind::max && maximum == loop.getYieldedValues()[s.carried] &&
           change.getLhs() == loop.getRegionIterArg(s.carried) && distance.getLhs() == s.reduce.getValue();
  };
  auto found = llvm::find_if(sums, isMaximum);
  if (found == sums.end()) return false;
  sum.maximum = found->carried;
  auto usedOnlyBy = [](Value value, ArrayRef<Operation *> users) {
    return llvm::all_of(value.getUsers(), [&](Operation *user) { return llvm::is_contained(users, user); });
  };
  Operation *yield = loop.getBody()->getTerminator();
  Operation *step = broadcast ? broadcast.getOperation() : distance.getOperation();
  return usedOnlyBy(maximum, {yield, isEmpty, guarded}) && isEmpty->hasOneUse() &&
         usedOnlyBy(guarded, {change, step}) && (!broadcast || broadcast->hasOneUse()) &&
         usedOnlyBy(loop.getRegionIterArg(sum.maximum), {maximum.getDefiningOp(), change});
}

bool DeferredSums::contains(Operation *reduce) const {
  return llvm::any_of(sums, [&](const Sum &sum) { return sum.reduce == reduce; });
}

SmallVector<Value> DeferredSums::initial(int64_t carried, SmallVector<Value> registers) {
  Emitter &e = lowering.emitter();
  for (Sum &sum : sums) {
    if (sum.carried != carried || sum.reduce.getKind() != tile::ReductionKind::sum) continue;
    int64_t others = lowering.layouts().of(sum.reduce.getValue()).columns->threadMask();
    if (!others) continue;
    Value isFirst = (e.thread() & others) == 0;
    for (Value &value : registers) {
      Type type = value.getType();
      Value zero = type.isF32() ? e.f32(0) : e.number(type, 0).value;
      value = e.select(isFirst, value, zero);
    }
  }
  return registers;
}

void DeferredSums::combine(MutableArrayRef<SmallVector<Value>> registers) {
  SmallVector<SmallVector<Value>> before(registers.begin(), registers.end());
  auto combineThose = [&](auto wanted) {
    SmallVector<RegisterSums> together;
    SmallVector<int64_t> numbers;
    for (Sum &sum : sums) {
      if (!wanted(sum)) continue;
      if (sum.maximum >= 0) rescale(sum, registers[sum.carried], before[sum.maximum], registers[sum.maximum]);
      together.emplace_back(lowering, sum.reduce);
      together.back().values() = registers[sum.carried];
      numbers.push_back(sum.carried);
    }
    combineAcrossThreads(lowering, together);
    for (auto [sum, number] : llvm::zip(together, numbers))
      registers[number] = sum.values();
  };
  combineThose([](Sum &sum) { return sum.maximum < 0; });
  combineThose([](Sum &sum) { return sum.maximum >= 0; });
}

void DeferredSums::rescale(Sum &sum, SmallVector<Value> &values, ArrayRef<Value> before,
                           ArrayRef<Value> after) {
  Emitter &e = lowering.emitter();
  for (auto [value, own, row] : llvm::zip(values, before, after)) {
    Value isEmpty = e.b.create<arith::CmpFOp>(arith::CmpFPredicate::OEQ, row, e.f32(-kInfinity));
    Value base = e.select(isEmpty, e.f32(0), row);
    Value factor = e.b.create<math::ExpOp>(e.b.create<arith::SubFOp>(own, base));
    value = e.b.create<arith::MulFOp>(value, factor);
  }
}

} // namespace tilewright::nvptx
