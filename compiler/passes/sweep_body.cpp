#include "compiler/passes/sweep_body.h"

#include "compiler/passes/memory_access.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using tilewright::tile::ReductionKind;

namespace tilewright {

static bool isMultipleOf(Value width, int64_t block) {
  APInt value;
  return matchPattern(width, m_ConstantInt(&value)) && value.getSExtValue() % block == 0;
}

SmallVector<Value> SweepBody::reduce(Operation *op, ValueRange carried) {
  auto plain = dyn_cast<tile::ReduceOp>(op);
  ReductionKind kind = plain ? plain.getKind() : ReductionKind::max;
  Value x = insideRow(values_.lookup(op->getOperand(0)), kind);
  if (plain) return {combine(b_, kind, carried[0], b_.reduce(kind, x))};
  const bool isKept = exponentials_ && exponentials_->sum == op;
  if (carried.size() == 3) return addLazily({carried[0], carried[1], carried[2]}, x, isKept);
  MaxSumExp online = combineMaxSumExp(b_, carried[0], carried[1], x);
  if (isKept) termsMade_ = online.terms, shiftMade_ = online.max;
  return {online.max, online.sum};
}

SmallVector<Value> SweepBody::addLazily(const LazySum &before, Value x, bool isKept) {
  LazySum after;
  Value terms;
  if (isLazy_) {
    after = addBlockLazily(b_, before, x, [&](Value e) {
      if (isKept) exponentials_->storeTerms(b_, e, place_);
    });
  } else {
    after = addBlock(b_, before, x, terms);
  }
  if (isKept) termsMade_ = terms, shiftMade_ = after.shift;
  return {after.max, after.sum, after.shift};
}

void SweepBody::keepExponentials() {
  if (termsMade_) exponentials_->storeTerms(b_, termsMade_, place_);
  if (shiftMade_) exponentials_->storeMaximum(b_, shiftMade_, place_);
}

void SweepBody::clone(Operation *op, Value cutView) {
  Value place = kept_.places ? kept_.places->lookup(op) : Value();
  if (place && kept_.isLoaded) {
    auto load = b_.create<tile::LoadOp>(blockType(tile::tileType(op->getResult(0))), place, kept_.column,
                                        Value(), /*interior=*/true);
    values_.map(op->getResult(0), load.getResult());
    return;
  }
  if (exponentials_ && exponentials_->of.contains(op)) {
    RankedTensorType type = blockType(tile::tileType(op->getResult(0)));
    KeptBlockTerms kept = exponentials_->load(b_, op, type, place_);
    found_[op->getResult(0)] = kept;
    values_.map(op->getResult(0), b_.create<arith::MulFOp>(kept.terms, b_.spread(kept.factor, kept.terms)));
    return;
  }
  if (scaleKept(op)) return;
  if (missesPosition_ && comparesPosition(op)) {
    bool differs = cast<arith::CmpIOp>(op).getPredicate() == arith::CmpIPredicate::ne;
    decided_[op->getResult(0)] = differs;
    Value like = values_.lookup(op->getOperand(0));
    values_.map(op->getResult(0), b_.full(like, b_.getBoolAttr(differs)));
    return;
  }
  if (auto select = dyn_cast<arith::SelectOp>(op); select && decided_.contains(select.getCondition())) {
    bool yes = decided_.lookup(select.getCondition());
    values_.map(select.getResult(), values_.lookup(yes ? select.getTrueValue() : select.getFalseValue()));
    return;
  }
  Operation *block = op->clone(values_);
  for (Value result : block->getResults())
    result.setType(blockType(tile::tileType(result)));
  moveToBlock(block, cutView);
  b_.insert(block);
  if (place)
    b_.create<tile::StoreOp>(values_.lookup(op->getResult(0)), place, kept_.column, /*interior=*/true);
}

/// w · (e · f) = e · (w · f), where w is a number of the row: one multiplication for each element, not two.
bool SweepBody::scaleKept(Operation *op) {
  if (!isa<arith::MulFOp>(op)) return false;
  for (unsigned side : {0, 1}) {
    auto kept = found_.find(op->getOperand(side));
    auto number = op->getOperand(1 - side).getDefiningOp<tile::BroadcastOp>();
    if (kept == found_.end() || !number || number.getValue().getType() != kept->second.factor.getType())
      continue;
    Value factor = b_.create<arith::MulFOp>(values_.lookupOrDefault(number.getValue()), kept->second.factor);
    values_.map(op->getResult(0),
                b_.create<arith::MulFOp>(kept->second.terms, b_.spread(factor, kept->second.terms)));
    return true;
  }
  return false;
}

RankedTensorType SweepBody::blockType(RankedTensorType longType) {
  return RankedTensorType::get({longType.getDimSize(0), block_}, longType.getElementType());
}

Value SweepBody::shifted(Value column) { return b_.createOrFold<arith::AddIOp>(column_, column); }

void SweepBody::shiftLast(MutableOperandRange offsets) {
  MutableOperandRange column = offsets.slice(offsets.size() - 1, 1);
  column.assign(shifted(column[0].get()));
}

void SweepBody::moveToBlock(Operation *op, Value cutView) {
  if (isInterior_ && columnOf(op)) op->setAttr(tile::kInteriorAttr, b_.getUnitAttr());
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](tile::LoadOp load) {
        load.getSizeMutable().clear();
        shiftLast(load.getOffsetsMutable());
      })
      .Case([&](tile::LoadRowsOp load) {
        load.getSizeMutable().clear();
        shiftLast(load.getColumnMutable());
      })
      .Case([&](tile::IotaOp iota) {
        iota.getSizeMutable().clear();
        iota.getBeginMutable().assign(shifted(iota.getBegin()));
      })
      .Case([&](tile::BroadcastOp broadcast) { broadcast.getSizeMutable().clear(); })
      .Case<tile::StoreOp, tile::ReduceAddOp>([&](auto store) {
        store.getViewMutable().assign(cutView);
        shiftLast(store.getOffsetsMutable());
      })
      .Case([&](tile::StoreRowsOp store) {
        store.getViewMutable().assign(cutView);
        shiftLast(store.getColumnMutable());
      });
}

/// x where the column lies inside the row, elsewhere what does not count.
Value SweepBody::insideRow(Value x, ReductionKind kind) {
  if (isInterior_ || isMultipleOf(width_, block_)) return x;
  Value other = b_.full(x, neutral(b_, kind, tile::elementOf(x.getType())));
  return b_.create<arith::SelectOp>(b_.spread(columnInside(), x), x, other);
}

/// Which columns of the block lie inside the row, 1×C.
Value SweepBody::columnInside() {
  if (columnInside_) return columnInside_;
  // What is left of a row may not fit in 32 bits; what is left of a block does.
  Value all = b_.create<arith::SubIOp>(width_, column_);
  Value left = b_.create<arith::MinSIOp>(all, b_.index(block_));
  auto type = RankedTensorType::get({1, block_}, b_.getI32Type());
  Value position = b_.create<tile::IotaOp>(type, b_.index(0), 1, Value());
  Value limit = b_.spread(b_.splat(left), position);
  return columnInside_ = b_.create<arith::CmpIOp>(arith::CmpIPredicate::slt, position, limit);
}

} // namespace tilewright
