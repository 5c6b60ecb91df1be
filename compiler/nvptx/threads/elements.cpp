// How FunctionLowering computes elements of tiles, each when it is first asked for.

#include "compiler/nvptx/threads/function_lowering.h"
#include "compiler/nvptx/threads/memory_access.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tilewright::nvptx {

using namespace mlir;
using layout::AxisMap;

SmallVector<Value> &FunctionLowering::registersOf(Value tile) {
  SmallVector<Value> &values = registers[tile];
  if (values.empty()) values.resize(layouts_.of(tile).registers());
  return values;
}

SmallVector<Value> FunctionLowering::evaluateAll(Value tile) {
  TileLayout layout = layouts_.of(tile);
  SmallVector<Value> values;
  for (int64_t r = 0; r < layout.rows->registers(); ++r)
    for (int64_t c = 0; c < layout.columns->registers(); ++c)
      values.push_back(evaluate(tile, r, c));
  return values;
}

/// `row` and `column` may be registers of a larger tile, along axes of which this one has a single position.
Value FunctionLowering::evaluate(Value tile, int64_t row, int64_t column) {
  TileLayout layout = layouts_.of(tile);
  if (layout.rows->registers() == 1) row = 0;
  if (layout.columns->registers() == 1) column = 0;
  int64_t number = row * layout.columns->registers() + column;
  if (Value known = registersOf(tile)[number]) return known;
  Operation *op = tile.getDefiningOp();
  if (isLoad(op)) {
    loadRows(op, row, 1);
    return registersOf(tile)[number];
  }
  Value made = evaluateNew(tile, row, column);
  return registersOf(tile)[number] = made;
}

Value withoutBroadcasts(Value tile) {
  while (auto broadcast = tile.getDefiningOp<tile::BroadcastOp>())
    tile = broadcast.getValue();
  return tile;
}

tile::IotaOp positionsOf(arith::CmpIOp op) {
  using Predicate = arith::CmpIPredicate;
  const Predicate predicate = op.getPredicate();
  const bool isEquality = predicate == Predicate::eq || predicate == Predicate::ne;
  const bool isSigned = predicate == Predicate::slt || predicate == Predicate::sle ||
                        predicate == Predicate::sgt || predicate == Predicate::sge;
  auto splat = withoutBroadcasts(op.getRhs()).getDefiningOp<tile::SplatOp>();
  const bool isSize = splat && splat.getScalar().getDefiningOp<tile::DimOp>();
  return isEquality || (isSigned && isSize) ? withoutBroadcasts(op.getLhs()).getDefiningOp<tile::IotaOp>()
                                            : tile::IotaOp();
}

/// The register's own part of a position is a constant, the rest the same for all registers: compared with
/// the other side less that rest, no register has a position to compute.
Value FunctionLowering::comparePosition(arith::CmpIOp op, tile::IotaOp iota, int64_t row, int64_t column) {
  TileLayout layout = layouts_.of(op.getLhs());
  const bool alongRows = iota.getAxis() == 0;
  const AxisMap &map = alongRows ? *layout.rows : *layout.columns;
  Num begin = e.narrow(scalar(iota.getBegin())) + threadPosition(map);
  Num rest = e.num(evaluate(op.getRhs(), row, column)) - begin;
  Value own = e.i32(map.offsets[alongRows ? row : column]).value;
  return e.b.create<arith::CmpIOp>(op.getPredicate(), own, rest.value);
}

bool isPaired(TileLayout layout, int64_t column) {
  const auto &offsets = layout.columns->offsets;
  const size_t first = column / 2 * 2;
  return first + 1 < offsets.size() && offsets[first + 1] == offsets[first] + 1;
}

/// One instruction rounds two numbers, by the ordinary units; that for a single number is the special
/// functions', at a quarter of the rate and more.
Value FunctionLowering::roundPair(arith::TruncFOp op, int64_t row, int64_t column) {
  const int64_t first = column / 2 * 2;
  Type element = tile::elementOf(op.getType());
  Value low = evaluate(op.getIn(), row, first), high = evaluate(op.getIn(), row, first + 1);
  const char *text = element.isBF16() ? "cvt.rn.bf16x2.f32 $0, $1, $2;" : "cvt.rn.f16x2.f32 $0, $1, $2;";
  Value word = e.ptx(e.b.getI32Type(), text, "=r,f,f", {high, low}, false)[0];
  SmallVector<Value> pair = unpackPair(e, element, word);
  const int64_t number = row * layouts_.of(op.getOut()).columns->registers() + first;
  llvm::copy(pair, registersOf(op.getOut()).begin() + number);
  return pair[column - first];
}

Value FunctionLowering::evaluateNew(Value tile, int64_t row, int64_t column) {
  Operation *op = tile.getDefiningOp();
  Type element = tile::elementOf(tile.getType());
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto elements = cast<DenseElementsAttr>(constant.getValue());
    return e.b.create<arith::ConstantOp>(cast<TypedAttr>(elements.getSplatValue<Attribute>()));
  }
  if (auto splat = dyn_cast<tile::SplatOp>(op)) {
    Value from = scalars.lookupOrDefault(splat.getScalar());
    return from.getType().isIndex() ? e.b.create<arith::IndexCastOp>(element, from).getResult() : from;
  }
  if (auto iota = dyn_cast<tile::IotaOp>(op)) {
    TileLayout layout = layouts_.of(tile);
    Num at = iota.getAxis() == 0 ? position(*layout.rows, row) : position(*layout.columns, column);
    return (e.narrow(scalar(iota.getBegin())) + at).value;
  }
  if (auto broadcast = dyn_cast<tile::BroadcastOp>(op)) return evaluate(broadcast.getValue(), row, column);
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    if (auto iota = positionsOf(compare)) return comparePosition(compare, iota, row, column);
  if (auto truncation = dyn_cast<arith::TruncFOp>(op))
    if (roundsPairs && isPaired(layouts_.of(tile), column)) return roundPair(truncation, row, column);
  return cloneOnElements(op, row, column);
}

/// An arith or math op with other operands.
Value FunctionLowering::cloneOnElements(Operation *op, int64_t row, int64_t column) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(isTile(operand) ? evaluate(operand, row, column) : scalars.lookupOrDefault(operand));
  if (isa<arith::ExtFOp>(op)) return e.widen(operands[0]);
  if (isa<tile::MulHighOp>(op)) return e.b.create<arith::MulUIExtendedOp>(operands[0], operands[1]).getHigh();
  OperationState state(e.b.getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(tile::elementOf(op->getResult(0).getType()));
  state.addAttributes(op->getAttrDictionary().getValue());
  state.attributes.erase(kLayoutAttr);
  return e.b.create(state)->getResult(0);
}

} // namespace tilewright::nvptx
