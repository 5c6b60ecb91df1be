#include "compiler/nvptx/threads/exchange.h"

#include <limits>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

namespace tilewright::nvptx {

using namespace mlir;
using layout::AxisMap;
using layout::ThreadBit;

RegisterSums::RegisterSums(Lowering &lowering, tile::ReduceOp op)
    : lowering(lowering), e(lowering.emitter()), op(op), along(op.getAxis()),
      layout(lowering.layouts().of(op.getValue())) {
  sums.resize(kept().registers());
}

Value RegisterSums::neutral() {
  Type type = tile::elementOf(op.getValue().getType());
  tile::ReductionKind kind = op.getKind();
  if (type.isF32()) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    return e.f32(kind == tile::ReductionKind::sum   ? 0
                 : kind == tile::ReductionKind::max ? -infinity
                                                    : infinity);
  }
  bool isWide = type.isInteger(64);
  int64_t smallest = isWide ? INT64_MIN : INT32_MIN, largest = isWide ? INT64_MAX : INT32_MAX;
  return e
      .number(type, kind == tile::ReductionKind::sum   ? 0
                    : kind == tile::ReductionKind::max ? smallest
                                                       : largest)
      .value;
}

Value RegisterSums::combine(Value a, Value b) {
  bool isFloat = a.getType().isF32();
  switch (op.getKind()) {
  case tile::ReductionKind::sum:
    return isFloat ? e.b.createOrFold<arith::AddFOp>(a, b) : e.b.createOrFold<arith::AddIOp>(a, b);
  case tile::ReductionKind::max:
    return isFloat ? e.b.createOrFold<arith::MaximumFOp>(a, b) : e.b.createOrFold<arith::MaxSIOp>(a, b);
  case tile::ReductionKind::min:
    return isFloat ? e.b.createOrFold<arith::MinimumFOp>(a, b) : e.b.createOrFold<arith::MinSIOp>(a, b);
  }
  llvm_unreachable("three kinds");
}

Value RegisterSums::liveElement(int64_t reducedRegister, Value element, Value otherwise) {
  if (!reduced().isPadded()) return element;
  Value live = lowering.position(reduced(), reducedRegister) < reduced().extent;
  return e.select(live, element, otherwise);
}

void RegisterSums::add(int64_t row, int64_t column, Value element) {
  int64_t number = along == 1 ? row : column, reducedRegister = along == 1 ? column : row;
  element = liveElement(reducedRegister, element, neutral());
  sums[number] = sums[number] ? combine(sums[number], element) : element;
}

// ---- places of maxima ----

namespace {

bool isLargest(Value value) {
  value = withoutBroadcasts(value);
  DenseElementsAttr elements;
  return matchPattern(value, m_Constant(&elements)) && elements.isSplat() &&
         elements.getElementType().isInteger(32) && elements.getSplatValue<APInt>().isMaxSignedValue();
}

/// What `placedMaximum` recognised.
arith::SelectOp choiceOf(tile::ReduceOp place) { return place.getValue().getDefiningOp<arith::SelectOp>(); }

} // namespace

tile::ReduceOp placedMaximum(Operation *op) {
  auto place = dyn_cast<tile::ReduceOp>(op);
  if (!place || place.getAxis() != 1 || place.getKind() != tile::ReductionKind::min) return {};
  auto choice = choiceOf(place);
  auto isMaximum = choice ? choice.getCondition().getDefiningOp<arith::CmpFOp>() : arith::CmpFOp();
  if (!isMaximum || isMaximum.getPredicate() != arith::CmpFPredicate::OEQ ||
      !isLargest(choice.getFalseValue()))
    return {};
  auto maximum = withoutBroadcasts(isMaximum.getRhs()).getDefiningOp<tile::ReduceOp>();
  const bool fits = maximum && maximum.getAxis() == 1 && maximum.getKind() == tile::ReductionKind::max &&
                    maximum.getValue() == isMaximum.getLhs();
  return fits ? maximum : tile::ReduceOp();
}

/// Whether the numbers of each row ascend, padding's too: the first of a thread's is then its smallest.
static bool ascends(Value places) {
  auto positions = withoutBroadcasts(places).getDefiningOp<tile::IotaOp>();
  return positions && positions.getAxis() == 1;
}

void RegisterSums::find(int64_t row, int64_t column) {
  const Value places = choiceOf(op).getTrueValue();
  Value place = lowering.elements().evaluate(places, row, column);
  if (!ascends(places)) place = liveElement(column, place, neutral());
  Value known = followed->sums[row];
  if (known) {
    Value element = lowering.elements().evaluate(followed->operand(), row, column), before = sums[row];
    element = liveElement(column, element, followed->neutral());
    if (!ascends(places)) {
      Value isTied = e.b.create<arith::CmpFOp>(arith::CmpFPredicate::OEQ, element, known);
      before = e.select(isTied, combine(before, place), before);
    }
    Value isHigher = e.b.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, element, known);
    place = e.select(isHigher, place, before);
  }
  sums[row] = place;
}

void RegisterSums::keepWhere(ArrayRef<Value> own) {
  for (auto [value, mine, all] : llvm::zip(sums, own, followed->sums)) {
    Value isMaximum = e.b.create<arith::CmpFOp>(arith::CmpFPredicate::OEQ, mine, all);
    value = e.select(isMaximum, value, neutral());
  }
}

namespace {

constexpr int kLaneBits = 5;

/// One thread position of each warp: the bits of a map that choose among warps, dense.
AxisMap warpsOf(const AxisMap &map) {
  AxisMap warps;
  for (const ThreadBit &bit : map.bits)
    if (bit.bit >= kLaneBits) warps.bits.push_back({bit.bit, int64_t(1) << warps.bits.size()});
  return warps;
}

Num positionIn(Emitter &e, const AxisMap &map, int64_t reg) {
  Num position = e.i32(map.offsets[reg]);
  for (const ThreadBit &bit : map.bits)
    position = position + ((e.thread() >> bit.bit) & 1) * bit.stride;
  return position;
}

} // namespace

void combineAcrossThreads(Lowering &lowering, MutableArrayRef<RegisterSums> sums) {
  Emitter &e = lowering.emitter();
  int64_t bytes = 0;
  for (RegisterSums &sum : sums) {
    for (const ThreadBit &bit : sum.reduced().bits)
      if (bit.bit < kLaneBits)
        for (Value &value : sum.values())
          value = sum.combine(value, e.exchange(value, 1 << bit.bit));
    bytes += 8 * sum.kept().span() << warpsOf(sum.reduced()).bits.size();
  }
  bool isWhole = llvm::all_of(sums, [](RegisterSums &sum) { return warpsOf(sum.reduced()).bits.empty(); });
  if (isWhole) return;

  // Element (warp, position) of a sum, 8 bytes apart.
  Num base = lowering.chip().exchange(bytes);
  auto forEach = [&](auto body) {
    int64_t offset = 0;
    for (RegisterSums &sum : sums) {
      AxisMap warps = warpsOf(sum.reduced());
      int64_t count = int64_t(1) << warps.bits.size();
      if (count > 1) body(sum, warps, count, offset);
      offset += 8 * sum.kept().span() * count;
    }
  };
  forEach([&](RegisterSums &sum, const AxisMap &warps, int64_t, int64_t offset) {
    int64_t others = (lowering.layouts().threads() - 1) & ~sum.kept().threadMask();
    for (const ThreadBit &bit : warps.bits)
      others &= ~(int64_t(1) << bit.bit);
    Value writes = others ? (e.thread() & others) == 0 : e.truth(true);
    Num warp = positionIn(e, warps, 0);
    for (auto [reg, value] : llvm::enumerate(sum.values())) {
      Num place = warp * sum.kept().span() + lowering.position(sum.kept(), reg);
      e.storeSharedIf(writes, base + (place * 8 + offset), value);
    }
  });
  lowering.order().barrier();
  forEach([&](RegisterSums &sum, const AxisMap &, int64_t count, int64_t offset) {
    for (auto [reg, value] : llvm::enumerate(sum.values())) {
      Num address = base + lowering.position(sum.kept(), reg) * 8;
      Value total;
      for (int64_t warp = 0; warp < count; ++warp) {
        Value part = e.loadShared(address, offset + warp * 8 * sum.kept().span(), value.getType(), 1)[0];
        total = total ? sum.combine(total, part) : part;
      }
      value = total;
    }
  });
}

void forEachTold(Lowering &lowering, TileLayout layout,
                 llvm::function_ref<void(int64_t, int64_t, Num, Num, Value)> body) {
  Emitter &e = lowering.emitter();
  const int64_t replicas = (lowering.layouts().threads() - 1) & ~layout.threadMask();
  Value speaks = replicas ? (e.thread() & replicas) == 0 : e.truth(true);
  for (int64_t r = 0; r < layout.rows->registers(); ++r)
    for (int64_t c = 0; c < layout.columns->registers(); ++c) {
      Num row = lowering.position(*layout.rows, r), column = lowering.position(*layout.columns, c);
      Value tells = e.both(e.both(speaks, row < layout.rows->extent), column < layout.columns->extent);
      body(r, c, row, column, tells);
    }
}

SmallVector<Value> redistribute(Lowering &lowering, ValueRange values, TileLayout from, TileLayout to,
                                bool transposed) {
  if (!transposed && from == to) return llvm::to_vector(values);
  Emitter &e = lowering.emitter();
  Type element = values[0].getType();
  // Truth values travel as 16-bit integers, and 16-bit floats too.
  Type word = element.isF32() || element.isInteger(32) || element.isInteger(64)
                  ? element
                  : Type(e.b.getIntegerType(16));
  int64_t bytes = bytesOf(word), stride = from.columns->extent + (from.columns->extent > 1);
  Num base = lowering.chip().exchange(from.rows->extent * stride * bytes);
  auto place = [&](Num row, Num column) { return base + (row * stride + column) * bytes; };

  forEachTold(lowering, from, [&](int64_t r, int64_t c, Num row, Num column, Value tells) {
    Value value = values[r * from.columns->registers() + c];
    value =
        element.isInteger(1) ? e.b.create<arith::ExtUIOp>(word, value).getResult() : e.bitcast(word, value);
    e.storeSharedIf(tells, place(row, column), value);
  });
  lowering.order().barrier();

  SmallVector<Value> moved;
  for (int64_t r = 0; r < to.rows->registers(); ++r)
    for (int64_t c = 0; c < to.columns->registers(); ++c) {
      auto inside = [&](const AxisMap &map, int64_t reg) { // padding reads something, and nobody needs it
        Num at = lowering.position(map, reg);
        return map.isPadded() ? minimum(at, e.i32(map.extent - 1)) : at;
      };
      Num row = inside(*to.rows, r), column = inside(*to.columns, c);
      Num address = transposed ? place(column, row) : place(row, column);
      Value value = e.loadShared(address, 0, word, 1)[0];
      moved.push_back(element.isInteger(1) ? e.b.create<arith::TruncIOp>(element, value).getResult()
                                           : e.bitcast(element, value));
    }
  return moved;
}

} // namespace tilewright::nvptx
