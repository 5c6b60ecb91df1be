#include "compiler/passes/kept_exponentials.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace tilewright {

bool comparesPosition(Operation *op) {
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare || !isLongTile(compare.getType())) return false;
  bool isEquality =
      llvm::is_contained({arith::CmpIPredicate::eq, arith::CmpIPredicate::ne}, compare.getPredicate());
  auto position = compare.getLhs().getDefiningOp<tile::IotaOp>();
  auto number = compare.getRhs().getDefiningOp<tile::BroadcastOp>();
  return isEquality && position && position.getAxis() == 1 && isZero(position.getBegin()) && number &&
         tile::tileType(number.getValue()).getNumElements() == 1;
}

namespace {

/// What a value is in the columns that do not have the position which comparisons are with.
Value elsewhere(Value value) {
  auto select = value.getDefiningOp<arith::SelectOp>();
  auto compare = select ? select.getCondition().getDefiningOp<arith::CmpIOp>() : nullptr;
  if (!compare || !comparesPosition(compare)) return value;
  bool differs = compare.getPredicate() == arith::CmpIPredicate::ne;
  return differs ? select.getTrueValue() : select.getFalseValue();
}

/// Whether a is `max`, or the larger one of it and something else.
bool isAtLeast(Value a, Value max) {
  if (a == max) return true;
  auto larger = a.getDefiningOp<arith::MaximumFOp>();
  return larger && (isAtLeast(larger.getLhs(), max) || isAtLeast(larger.getRhs(), max));
}

/// The a of exp(z - a), of which there is one in a row; null for other operations.
Value shiftOf(Operation *op) {
  auto difference = op->getOperand(0).getDefiningOp<arith::SubFOp>();
  auto shift = difference ? difference.getRhs().getDefiningOp<tile::BroadcastOp>() : nullptr;
  return shift && tile::tileType(shift.getValue()).getNumElements() == 1 ? shift.getValue() : Value();
}

} // namespace

void KeptExponentials::choose(ArrayRef<ScheduledOp> ops, Value width) {
  auto isHere = [&](const ScheduledOp &op) { return op.isLong && sameValue(op.width, width); };
  for (const ScheduledOp &candidate : ops) {
    auto online = dyn_cast<tile::MaxSumExpOp>(candidate.op);
    if (!online || !isHere(candidate) || tile::rowsOf(online.getValue().getType()) != 1) continue;
    for (const ScheduledOp &user : ops) {
      Value shift = isa<math::ExpOp>(user.op) && isHere(user) ? shiftOf(user.op) : Value();
      if (!shift || user.sweep <= candidate.sweep || !isAtLeast(shift, online.getMax())) continue;
      Value x = online.getValue(), z = user.op->getOperand(0).getDefiningOp<arith::SubFOp>().getLhs();
      if (elsewhere(x) == elsewhere(z)) of[user.op] = x != z;
    }
    if (of.empty()) continue;
    sum = online;
    return;
  }
}

bool KeptExponentials::serve(ArrayRef<Operation *> ops, Value leftOut) const {
  return llvm::any_of(ops, [&](Operation *op) {
    auto found = of.find(op);
    return found != of.end() && (leftOut || !found->second);
  });
}

void KeptExponentials::begin(TileBuilder &b, KeptInterior all, int64_t block, int64_t cut) {
  Type vector = tile::ViewType::get(b.getContext(), 1, b.getF32Type());
  blockColumns = block, cutColumns = cut, room = columns / block * block, hasCut = cut != 0;
  terms = b.create<tile::OnChipOp>(vector, room + (cut ? 2 * block : 0));
  maxima = b.create<tile::OnChipOp>(vector, room / block + (cut ? 2 * block / cut : 0));
  interior = all;
  kept = b.create<arith::MinSIOp>(all.end, b.index(room));
}

KeptPlace KeptExponentials::placeOf(TileBuilder &b, Value column) const {
  return {column, b.create<arith::DivUIOp>(column, b.index(blockColumns))};
}

KeptPlace KeptExponentials::placeOfCut(TileBuilder &b, Value ahead) const {
  Value number = b.create<arith::DivUIOp>(ahead, b.index(cutColumns));
  return {b.create<arith::AddIOp>(ahead, b.index(room)),
          b.create<arith::AddIOp>(number, b.index(room / blockColumns))};
}

void KeptExponentials::storeTerms(TileBuilder &b, Value e, KeptPlace place) const {
  b.create<tile::StoreOp>(e, terms, place.terms, /*interior=*/true);
}

void KeptExponentials::storeMaximum(TileBuilder &b, Value max, KeptPlace place) const {
  b.create<tile::StoreOp>(max, maxima, place.maximum, /*interior=*/false);
}

KeptBlockTerms KeptExponentials::load(TileBuilder &b, Operation *exp, RankedTensorType block,
                                      KeptPlace place) const {
  Value e = b.create<tile::LoadOp>(block, terms, ValueRange(place.terms), Value(), /*interior=*/true);
  Value shift = shiftOf(exp);
  Value max = b.create<tile::LoadOp>(tile::tileType(shift), maxima, ValueRange(place.maximum), Value(),
                                     /*interior=*/false);
  return {e, b.create<math::ExpOp>(b.create<arith::SubFOp>(max, shift))};
}

} // namespace tilewright
