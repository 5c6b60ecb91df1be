#include "compiler/passes/lazy_shift.h"

#include "compiler/passes/block_reductions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using tilewright::tile::ReductionKind;

namespace tilewright {
namespace {

/// Logits of one row seldom differ by more from those of its first block, and e^16 times the number of
/// columns is far inside fp32's range.
constexpr double kMostAbove = 16;

/// Makes a value of the block `home` anew where `b` stands. A tile that passes from one block of code to
/// another, or over a branch, would be stored and loaded.
class Copies {
public:
  Copies(TileBuilder &b, Block *home) : b(b), home(home) {}

  Value of(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || op->getBlock() != home || copies.contains(value)) return copies.lookupOrDefault(value);
    for (Value operand : op->getOperands())
      of(operand);
    b.clone(*op, copies);
    return copies.lookup(value);
  }

private:
  TileBuilder &b;
  Block *home;
  IRMapping copies;
};

Value copyOf(TileBuilder &b, Value x) { return Copies(b, x.getParentBlock()).of(x); }

/// What the branch that is taken gives.
SmallVector<Value> choose(TileBuilder &b, Value condition, llvm::function_ref<SmallVector<Value>()> yes,
                          ArrayRef<Value> no) {
  Value isTrue = b.create<tile::ExtractOp>(condition);
  auto branch = b.create<scf::IfOp>(TypeRange(ValueRange(no)), isTrue, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  b.create<scf::YieldOp>(yes());
  b.setInsertionPointToStart(branch.elseBlock());
  b.create<scf::YieldOp>(no);
  return SmallVector<Value>(branch.getResults());
}

/// The largest number; NaNs are left out.
Value largestNumber(TileBuilder &b, Value x) {
  Value top = b.reduce(ReductionKind::max, x);
  top.getDefiningOp()->setAttr(tile::kNumbersOnlyAttr, b.getUnitAttr());
  return top;
}

/// The shift, of the first block its largest number; ahead of all else of the block.
Value shiftAhead(TileBuilder &b, Value shift, Value x) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(x.getParentBlock());
  Value none = b.full(shift, neutral(b, ReductionKind::max, b.getF32Type()));
  Value isFirst = b.create<arith::CmpFOp>(arith::CmpFPredicate::OEQ, shift, none);
  auto largest = [&] { return SmallVector<Value>{b.reduce(ReductionKind::max, copyOf(b, x))}; };
  return choose(b, isFirst, largest, shift).front();
}

} // namespace

LazySum addBlock(TileBuilder &b, const LazySum &before, Value x, Value &terms) {
  MaxSumExp online = combineMaxSumExp(b, before.shift, before.sum, x);
  terms = online.terms;
  return {combine(b, ReductionKind::max, before.max, online.max), online.sum, online.max};
}

LazySum addBlockLazily(TileBuilder &b, const LazySum &before, Value x, llvm::function_ref<void(Value)> keep) {
  Value shift = shiftAhead(b, before.shift, x);
  Value terms = exponentials(b, x, finiteOrZero(b, shift));
  Value top = largestNumber(b, x), sum = b.reduce(ReductionKind::sum, terms);
  keep(terms);

  Value limit = b.create<arith::AddFOp>(shift, b.full(shift, b.getF32Type(), kMostAbove));
  Value isAbove = b.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, top, limit);
  Value isNan = b.create<arith::CmpFOp>(arith::CmpFPredicate::UNO, sum, sum);
  Value max = combine(b, ReductionKind::max, before.max, top);
  Value total = b.create<arith::AddFOp>(before.sum, sum);
  auto again = [&]() -> SmallVector<Value> {
    Value anew;
    LazySum raised = addBlock(b, {before.max, before.sum, shift}, copyOf(b, x), anew);
    keep(anew);
    return {raised.max, raised.sum, raised.shift};
  };
  SmallVector<Value> after = choose(b, b.create<arith::OrIOp>(isAbove, isNan), again, {max, total, shift});
  return {after[0], after[1], after[2]};
}

Value sumOfMaximum(TileBuilder &b, const LazySum &row) {
  Value distance = b.create<arith::SubFOp>(finiteOrZero(b, row.shift), finiteOrZero(b, row.max));
  return b.create<arith::MulFOp>(row.sum, b.create<math::ExpOp>(distance));
}

} // namespace tilewright
