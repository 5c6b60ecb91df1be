#include "compiler/nvptx/threads/elements.h"

#include "compiler/nvptx/threads/lowering.h"
#include "compiler/nvptx/threads/memory_access.h"
#include "compiler/nvptx/tile_gpu/tile_gpu.h"
#include "mlir/IR/Matchers.h"

namespace tilewright::nvptx {

using namespace mlir;
using layout::AxisMap;

SmallVector<Value> &Elements::registersOf(Value tile) {
  SmallVector<Value> &values = registers[tile];
  if (values.empty()) values.resize(lowering.layouts().of(tile).registers());
  return values;
}

SmallVector<Value> Elements::evaluateAll(Value tile) {
  TileLayout layout = lowering.layouts().of(tile);
  SmallVector<Value> values;
  for (int64_t r = 0; r < layout.rows->registers(); ++r)
    for (int64_t c = 0; c < layout.columns->registers(); ++c)
      values.push_back(evaluate(tile, r, c));
  return values;
}

Value Elements::evaluate(Value tile, int64_t row, int64_t column) {
  TileLayout layout = lowering.layouts().of(tile);
  if (layout.rows->registers() == 1) row = 0;
  if (layout.columns->registers() == 1) column = 0;
  int64_t number = row * layout.columns->registers() + column;
  if (Value known = registersOf(tile)[number]) return known;
  Operation *op = tile.getDefiningOp();
  if (Operation *load = isLoad(op) ? op : addedRows(op)) {
    loadRow(load, row);
    return registersOf(tile)[number];
  }
  Value made = evaluateNew(tile, row, column);
  return registersOf(tile)[number] = made;
}

void Elements::loadRow(Operation *op, int64_t row) {
  load(op, row, 0, {1, lowering.layouts().of(op->getResult(0)).columns->registers()});
}

void Elements::load(Operation *op) {
  const TileLayout layout = lowering.layouts().of(op->getResult(0));
  load(op, 0, 0, {layout.rows->registers(), layout.columns->registers()});
}

/// The sum that alone takes rows of which it is known whether they are there.
arith::AddFOp Elements::sumOfPresentRows(Operation *load) const {
  const bool isAlone = lowering.presentRows(load) && load->getResult(0).hasOneUse();
  return isAlone ? dyn_cast<arith::AddFOp>(*load->user_begin()) : arith::AddFOp();
}

/// The load of such rows that `op` adds, or null.
Operation *Elements::addedRows(Operation *op) const {
  if (!isa<arith::AddFOp>(op)) return nullptr;
  for (Value operand : op->getOperands())
    if (Operation *load = operand.getDefiningOp(); load && isLoad(load) && sumOfPresentRows(load) == op)
      return load;
  return nullptr;
}

void Elements::load(Operation *op, int64_t row, int64_t column, StoreTarget::Piece piece) {
  Value tile = op->getResult(0);
  MemoryAccess access(lowering, op);
  SmallVector<Value> values;
  if (arith::AddFOp sum = sumOfPresentRows(op)) {
    const Value other = sum.getLhs() == tile ? sum.getRhs() : sum.getLhs();
    for (int64_t r = 0; r < piece.rows; ++r)
      for (int64_t c = 0; c < piece.columns; ++c)
        values.push_back(evaluate(other, row + r, column + c));
    values = access.addPresent(row, column, piece, values);
    tile = sum.getResult();
  } else {
    values = access.load(row, column, piece);
  }
  const int64_t columns = lowering.layouts().of(tile).columns->registers();
  SmallVector<Value> &all = registersOf(tile);
  for (int64_t r = 0; r < piece.rows; ++r)
    for (int64_t c = 0; c < piece.columns; ++c)
      all[(row + r) * columns + column + c] = values[r * piece.columns + c];
}

void Elements::forgetColumns() {
  SmallVector<Value> columns;
  for (const auto &known : registers)
    if (tile::tileType(known.first).getDimSize(1) == 1 &&
        lowering.layouts().of(known.first).rows->registers() > 1)
      columns.push_back(known.first);
  for (Value column : columns)
    registers.erase(column);
}

void Elements::within(llvm::function_ref<void()> body) {
  auto known = registers;
  body();
  registers = std::move(known);
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
Value Elements::comparePosition(arith::CmpIOp op, tile::IotaOp iota, int64_t row, int64_t column) {
  Emitter &e = lowering.emitter();
  TileLayout layout = lowering.layouts().of(op.getLhs());
  const bool alongRows = iota.getAxis() == 0;
  const AxisMap &map = alongRows ? *layout.rows : *layout.columns;
  Num begin = e.narrow(lowering.scalar(iota.getBegin())) + lowering.threadPosition(map);
  Num rest = e.num(evaluate(op.getRhs(), row, column)) - begin;
  Value own = e.i32(map.offsets[alongRows ? row : column]).value;
  return e.b.create<arith::CmpIOp>(op.getPredicate(), own, rest.value);
}

static bool arePaired(const AxisMap &map, int64_t number) {
  const size_t first = number / 2 * 2;
  return first + 1 < map.offsets.size() && map.offsets[first + 1] == map.offsets[first] + 1;
}
bool isPaired(TileLayout layout, int64_t column) { return arePaired(*layout.columns, column); }

std::optional<APFloat> constantOf(Value tile) {
  DenseFPElementsAttr elements;
  if (!matchPattern(withoutBroadcasts(tile), m_Constant(&elements)) || !elements.isSplat()) return {};
  return elements.getSplatValue<APFloat>();
}

/// Numbers to be rounded, of which small ones become 0.
struct FlushedTile {
  Value numbers;
  APInt least; ///< the smallest number that is kept, as bits of the type that it is rounded to
};

/// select(x < limit, 0, x), where the limit is the smallest number that is rounded to what it is rounded to:
/// then the rounded numbers may be compared in place of x.
static std::optional<FlushedTile> flushedTile(arith::TruncFOp op) {
  auto flush = op.getIn().getDefiningOp<arith::SelectOp>();
  auto isSmall = flush ? flush.getCondition().getDefiningOp<arith::CmpFOp>() : arith::CmpFOp();
  if (!isSmall || isSmall.getPredicate() != arith::CmpFPredicate::OLT) return {};
  const auto zero = constantOf(flush.getTrueValue()), limit = constantOf(isSmall.getRhs());
  if (isSmall.getLhs() != flush.getFalseValue() || !zero || !zero->isPosZero() || !limit) return {};
  const auto rounded = [&](APFloat x) {
    bool isInexact;
    x.convert(cast<FloatType>(tile::elementOf(op.getType())).getFloatSemantics(),
              APFloat::rmNearestTiesToEven, &isInexact);
    return x;
  };
  APFloat below = *limit;
  below.next(/*nextDown=*/true);
  const APFloat least = rounded(*limit);
  if (!least.isFiniteNonZero() || rounded(below) == least) return {};
  return FlushedTile{flush.getFalseValue(), least.bitcastToAPInt()};
}

/// Both numbers of a word (bf16), or 0 for one below `least`.
static Value flushPair(Emitter &e, Value word, const APInt &least) {
  const int64_t bits = static_cast<int64_t>(least.getZExtValue());
  const Type i32 = e.b.getI32Type();
  Value isKept = e.ptx(i32, "set.ge.bf16x2.bf16x2 $0, $1, $2;", "=r,r,r",
                       {word, e.i32(bits << 16 | bits).value}, false)[0];
  return e.ptx(i32, "mul.bf16x2 $0, $1, $2;", "=r,r,r", {word, isKept}, false)[0];
}

/// One instruction rounds two numbers, by the ordinary units; that for a single number is the special
/// functions', at a quarter of the rate and more. sm_90 flushes two at once as well.
Value Elements::roundPair(arith::TruncFOp op, int64_t row, int64_t column, bool ofRows) {
  Emitter &e = lowering.emitter();
  const int64_t place = ofRows ? row % 2 : column % 2;
  ofRows ? row -= place : column -= place;
  const int64_t nextRow = row + ofRows, nextColumn = column + !ofRows;
  Type element = tile::elementOf(op.getType());
  const bool flushesPairs = lowering.options().hopper && element.isBF16();
  const auto flushed = flushesPairs ? flushedTile(op) : std::nullopt;
  Value from = flushed ? flushed->numbers : op.getIn();
  Value low = evaluate(from, row, column), high = evaluate(from, nextRow, nextColumn);
  const char *text = element.isBF16() ? "cvt.rn.bf16x2.f32 $0, $1, $2;" : "cvt.rn.f16x2.f32 $0, $1, $2;";
  Value word = e.ptx(e.b.getI32Type(), text, "=r,f,f", {high, low}, false)[0];
  if (flushed) word = flushPair(e, word, flushed->least);
  SmallVector<Value> pair = unpackPair(e, element, word);
  const int64_t columns = lowering.layouts().of(op.getOut()).columns->registers();
  SmallVector<Value> &known = registersOf(op.getOut());
  known[row * columns + column] = pair[0], known[nextRow * columns + nextColumn] = pair[1];
  return pair[place];
}

Value Elements::evaluateNew(Value tile, int64_t row, int64_t column) {
  Emitter &e = lowering.emitter();
  Operation *op = tile.getDefiningOp();
  Type element = tile::elementOf(tile.getType());
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto elements = cast<DenseElementsAttr>(constant.getValue());
    return e.b.create<arith::ConstantOp>(cast<TypedAttr>(elements.getSplatValue<Attribute>()));
  }
  if (auto splat = dyn_cast<tile::SplatOp>(op)) {
    Value from = lowering.mapped(splat.getScalar());
    return from.getType().isIndex() ? e.b.create<arith::IndexCastOp>(element, from).getResult() : from;
  }
  if (auto iota = dyn_cast<tile::IotaOp>(op)) {
    TileLayout layout = lowering.layouts().of(tile);
    Num at = iota.getAxis() == 0 ? lowering.position(*layout.rows, row)
                                 : lowering.position(*layout.columns, column);
    return (e.narrow(lowering.scalar(iota.getBegin())) + at).value;
  }
  if (auto broadcast = dyn_cast<tile::BroadcastOp>(op)) return evaluate(broadcast.getValue(), row, column);
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    if (auto iota = positionsOf(compare)) return comparePosition(compare, iota, row, column);
  if (auto truncation = dyn_cast<arith::TruncFOp>(op); truncation && roundsPairs) {
    const TileLayout layout = lowering.layouts().of(tile);
    const bool ofRows = !isPaired(layout, column);
    if (!ofRows || arePaired(*layout.rows, row)) return roundPair(truncation, row, column, ofRows);
  }
  return cloneOnElements(op, row, column);
}

/// An arith or math op with other operands.
Value Elements::cloneOnElements(Operation *op, int64_t row, int64_t column) {
  Emitter &e = lowering.emitter();
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(isTile(operand) ? evaluate(operand, row, column) : lowering.mapped(operand));
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
