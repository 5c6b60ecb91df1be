#include "compiler/passes/tile_builder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tilewright {

Value TileBuilder::index(int64_t value) { return create<arith::ConstantIndexOp>(value); }

Value TileBuilder::full(Value like, TypedAttr value) {
  auto one = RankedTensorType::get({1, 1}, value.getType());
  return spread(create<arith::ConstantOp>(DenseElementsAttr::get(one, Attribute(value))), like);
}

Value TileBuilder::full(Value like, Type element, double value) {
  if (isa<FloatType>(element)) return full(like, getFloatAttr(element, value));
  return full(like, getIntegerAttr(element, static_cast<int64_t>(value)));
}

Value TileBuilder::spread(Value value, Value like) {
  auto type = tile::tileType(like).clone(tile::elementOf(value.getType()));
  if (value.getType() == type) return value;
  bool grows = tile::isLong(type) && !tile::isLong(value.getType());
  return create<tile::BroadcastOp>(type, value, grows ? widthOf(like) : Value());
}

Value TileBuilder::positions(Value like) {
  auto type = RankedTensorType::get({1, tile::columnsOf(like.getType())}, getI32Type());
  Value size = tile::isLong(type) ? widthOf(like) : Value();
  return spread(create<tile::IotaOp>(type, index(0), 1, size), like);
}

Value TileBuilder::at(Value index, Value like) {
  Value columns = positions(like), wanted = spread(index, like);
  return create<arith::CmpIOp>(arith::CmpIPredicate::eq, columns, wanted);
}

Value TileBuilder::inside(Value position, Value like) {
  int64_t columns = tile::columnsOf(like.getType());
  Value width = tile::isLong(like.getType()) ? splat(widthOf(like)) : full(position, getI32Type(), columns);
  // Unsigned, so that a negative index is a large one.
  return create<arith::CmpIOp>(arith::CmpIPredicate::ult, position, spread(width, position));
}

Value TileBuilder::splat(Value index) {
  return create<tile::SplatOp>(RankedTensorType::get({1, 1}, getI32Type()), index);
}

Value TileBuilder::reduce(tile::ReductionKind kind, Value x) { return create<tile::ReduceOp>(kind, x, 1); }

std::pair<Value, Value> TileBuilder::maxAndSum(Value x, Value *shifted) {
  Value m = reduce(tile::ReductionKind::max, x);
  Value d = create<arith::SubFOp>(x, spread(m, x));
  if (shifted) *shifted = d;
  return {m, reduce(tile::ReductionKind::sum, create<math::ExpOp>(d))};
}

bool isLongTile(Type type) { return isa<RankedTensorType>(type) && tile::isLong(type); }

OpOperand *sizeOperand(Operation *op) {
  return TypeSwitch<Operation *, OpOperand *>(op)
      .Case<tile::LoadOp, tile::LoadRowsOp, tile::IotaOp, tile::BroadcastOp, tile::ScatterOp>(
          [](auto sized) -> OpOperand * {
            MutableOperandRange size = sized.getSizeMutable();
            return size.empty() ? nullptr : &size[0];
          })
      .Default([](Operation *) { return nullptr; });
}

Value widthOf(Value longTile) {
  while (Operation *op = longTile.getDefiningOp()) {
    if (OpOperand *size = sizeOperand(op)) return size->get();
    auto operand = llvm::find_if(op->getOperands(), [](Value v) { return isLongTile(v.getType()); });
    if (operand == op->operand_end()) break;
    longTile = *operand;
  }
  return {};
}

LogicalResult checkWidths(Operation *op) {
  for (Value operand : op->getOperands())
    if (isLongTile(operand.getType()) && !widthOf(operand))
      return op->emitOpError(
          "has a long operand of unknown width: long tiles are made from loads and cannot be "
          "arguments or carried by a loop");
  return success();
}

bool sameValue(Value a, Value b) {
  if (!a || !b || a == b) return a == b;
  Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
  if (!x || !y || x->getNumRegions() || !isPure(x)) return false;
  if (cast<OpResult>(a).getResultNumber() != cast<OpResult>(b).getResultNumber()) return false;
  auto equal = [](Value u, Value v) { return success(sameValue(u, v)); };
  return OperationEquivalence::isEquivalentTo(x, y, equal, nullptr, OperationEquivalence::IgnoreLocations);
}

bool isZero(Value index) { return matchPattern(index, m_Zero()); }

bool isElementwise(Operation *op) { return op->hasTrait<OpTrait::Elementwise>() && isPure(op); }

} // namespace tilewright
