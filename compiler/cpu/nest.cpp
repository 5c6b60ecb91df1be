#include "compiler/cpu/nest.h"

#include "compiler/cpu/index_sign.h"
#include "compiler/cpu/nest_reductions.h"
#include "compiler/cpu/nest_strips.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/MapVector.h"

namespace tilewright::cpu {

using namespace mlir;

namespace {

/// Where a block's row starts in memory, and which of its elements, [first, live), lie inside the view (none,
/// when the row lies outside). `first` is null where it is 0.
struct RowAccess {
  Value pointer, live, first;
};

/// As many as make a second loop, which has no masks, worth its code.
constexpr int64_t kStripsForTwoLoops = 8;

/// A row's memory is asked for so far ahead of its use, a line at a time. The processor does so by itself,
/// but not far enough where a loop takes long for a line.
constexpr int64_t kBytesAhead = 4096, kLineBytes = 64;

class NestEmitter {
public:
  NestEmitter(FunctionLowering &lowering, const NestPlan &plan)
      : lowering(lowering), e(lowering.emitter()), b(e.b), plan(plan), widest(widestStrip(lowering, plan)),
        inPairs(takesPairs(lowering, plan)), lanes(widest) {}

  void emit() {
    allocateResults();
    row = e.index(0);
    if (plan.rows == 1) return emitRow();
    auto loop = b.create<scf::ForOp>(e.index(0), liveRows(), e.index(1));
    rowLoop = loop;
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    row = loop.getInductionVar();
    emitRow();
  }

private:
  // ---- what is emitted, in order ----

  void allocateResults() {
    for (const Sink &sink : plan.sinks) {
      if (sink.kind == Sink::Kind::materialise) pending[sink.value] = lowering.allocate(tileType(sink.value));
      auto reduce = dyn_cast_or_null<tile::ReduceOp>(sink.op);
      if (!reduce || reduce.getAxis() != 0) continue;
      TileBuffer sums = lowering.allocate(tileType(reduce.getResult()));
      pending[reduce.getResult()] = sums;
      overColumns(sums.columns, [&](Value column) {
        Value neutral = neutralElement(b, reduce);
        if (sums.columns == 1)
          storeScalarTo(sums, e.index(0), neutral);
        else
          storeStripTo(sums, e.index(0), column, e.splat(neutral, lanes));
      });
    }
  }

  /// Rows past every view that the nest stores to need no work, unless something keeps or sums them.
  Value liveRows() {
    Value live;
    for (const Sink &sink : plan.sinks) {
      auto store = dyn_cast_or_null<tile::StoreOp>(sink.op);
      auto reduce = dyn_cast_or_null<tile::ReduceOp>(sink.op);
      if (reduce && reduce.getAxis() == 1) continue;
      bool countsRows = store && tileType(sink.value).getDimSize(0) == plan.rows;
      if (!countsRows) return e.index(plan.rows);
      Value rows = e.sub(lowering.view(store.getView()).sizes[0], lowering.scalar(store.getOffsets()[0]));
      live = live ? b.createOrFold<arith::MaxSIOp>(live, rows) : rows;
    }
    return live ? e.clamp(live, 0, plan.rows) : e.index(plan.rows);
  }

  void emitRow() {
    int last = 0;
    for (const Sink &sink : plan.sinks)
      if (isWide(sink.value)) last = std::max(last, phaseOf(sink));
    for (int phase = 0; phase <= last; ++phase)
      emitPhase(phase, last);
    for (const Sink &sink : plan.sinks)
      if (!isWide(sink.value)) emitNarrowSink(sink);
    for (auto &[value, buffer] : pending)
      lowering.setBuffer(value, buffer);
  }

  void emitPhase(int phase, int last) {
    SmallVector<const Sink *> sinks;
    SmallVector<Value> initial;
    for (const Sink &sink : plan.sinks) {
      if (!isWide(sink.value) || (sink.kind == Sink::Kind::store ? last : phaseOf(sink)) != phase) continue;
      sinks.push_back(&sink);
    }
    if (sinks.empty()) return;
    lanes = stripOf(lowering, sinks, widest);
    for (const Sink *sink : sinks)
      if (reducesColumns(*sink))
        llvm::append_range(initial, beginLanes(e, cast<tile::ReduceOp>(sink->op), lanes));
    readsAhead = phase > 0 || takeFunctions(lowering, sinks);
    SmallVector<Value> reduced(initial.begin(), initial.end());
    Value whole = wholeStrips(sinks);
    if (whole) reduced = emitStrips(sinks, e.index(0), whole, reduced, /*areWhole=*/true);
    reduced = emitStrips(sinks, whole ? whole : e.index(0), e.index(plan.columns), reduced, false);
    ValueRange left = reduced;
    for (const Sink *sink : sinks)
      if (reducesColumns(*sink)) {
        auto reduce = cast<tile::ReduceOp>(sink->op);
        rowValues[reduce.getResult()] = endLanes(e, reduce, left.take_front(lanesCarried(reduce)));
        left = left.drop_front(lanesCarried(reduce));
      }
  }

  /// The loop over a phase's strips from one column to another: what its reductions along the row come to.
  SmallVector<Value> emitStrips(ArrayRef<const Sink *> sinks, Value begin, Value end, ValueRange initial,
                                bool areWhole) {
    auto loop = b.create<scf::ForOp>(begin, end, e.index(lanes), initial);
    columnLoop = loop;
    isWhole = areWhole;
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      emitStrip(sinks, loop);
    }
    columnLoop = nullptr;
    isWhole = false;
    return SmallVector<Value>(loop.getResults());
  }

  /// Where the strips end that need no mask, of a phase in which others may. Null where no strip needs one,
  /// or there are too few for a loop of their own.
  Value wholeStrips(ArrayRef<const Sink *> sinks) {
    if (plan.columns % lanes != 0 || plan.columns < kStripsForTwoLoops * lanes) return {};
    Value end;
    for (Operation *op : rowAccesses(lowering, sinks)) {
      if (tile::isInterior(op)) continue;
      RowAccess access = rowAccess(op);
      Value live = access.live;
      if (access.first) {
        Value beginsInside = b.create<arith::CmpIOp>(arith::CmpIPredicate::sle, access.first, e.index(0));
        live = b.create<arith::SelectOp>(beginsInside, live, e.index(0));
      }
      end = end ? e.minimum(end, live) : live;
    }
    if (!end) return {};
    return e.mul(b.createOrFold<arith::DivUIOp>(e.clamp(end, 0, plan.columns), e.index(lanes)),
                 e.index(lanes));
  }

  void emitStrip(ArrayRef<const Sink *> sinks, scf::ForOp loop) {
    column = loop.getInductionVar();
    stripValues.clear();
    partMask = plan.columns % lanes == 0 ? Value() : e.laneMask(e.sub(e.index(plan.columns), column), lanes);
    SmallVector<Value> values, next;
    for (const Sink *sink : sinks)
      values.push_back(strip(sink->value));
    for (auto [sink, value] : llvm::zip(sinks, values)) {
      if (sink->kind == Sink::Kind::store) {
        storeStrip(*sink, value);
      } else if (sink->kind == Sink::Kind::materialise) {
        storeStripTo(pending[sink->value], row, column, value);
      } else {
        auto reduce = cast<tile::ReduceOp>(sink->op);
        Value live =
            partMask ? b.create<arith::SelectOp>(partMask, value, e.splat(neutralElement(b, reduce), lanes))
                     : value;
        if (reduce.getAxis() == 1)
          llvm::append_range(
              next,
              addLanes(e, reduce, loop.getRegionIterArgs().slice(next.size(), lanesCarried(reduce)), live));
        else
          addToColumns(reduce, live);
      }
    }
    if (!next.empty()) b.create<scf::YieldOp>(next);
  }

  void addToColumns(tile::ReduceOp reduce, Value value) {
    const TileBuffer &sums = pending[reduce.getResult()];
    Value old = loadStripFrom(sums, e.index(0), column);
    storeStripTo(sums, e.index(0), column, combine(b, reduce, old, value));
  }

  /// A sink of a column: one number a row.
  void emitNarrowSink(const Sink &sink) {
    Value value = scalar(sink.value);
    if (sink.kind == Sink::Kind::store) return storeElement(sink.op, value);
    if (sink.kind == Sink::Kind::materialise) return storeScalarTo(pending[sink.value], row, value);
    auto reduce = cast<tile::ReduceOp>(sink.op);
    if (reduce.getAxis() == 1) {
      rowValues[reduce.getResult()] = value;
      return;
    }
    const TileBuffer &sum = pending[reduce.getResult()];
    storeScalarTo(sum, e.index(0), combine(b, reduce, loadScalarFrom(sum, e.index(0)), value));
  }

  // ---- order ----

  bool isWide(Value value) const { return tileType(value).getDimSize(1) > 1; }
  static bool reducesColumns(const Sink &sink) {
    return sink.kind == Sink::Kind::reduce && cast<tile::ReduceOp>(sink.op).getAxis() == 1;
  }

  int phaseOf(const Sink &sink) {
    int phase = phaseOf(sink.value);
    if (sink.op)
      for (Value operand : sink.op->getOperands())
        if (tileType(operand)) phase = std::max(phase, phaseOf(operand));
    return phase;
  }

  /// One more than the phase of the last reduction along the row that the value depends on.
  int phaseOf(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || lowering.buffer(value)) return 0;
    if (auto found = phases.find(value); found != phases.end()) return found->second;
    int phase = 0;
    for (Value operand : op->getOperands())
      if (tileType(operand)) phase = std::max(phase, phaseOf(operand));
    if (isa<tile::ReduceOp>(op) && isWide(op->getOperand(0))) ++phase;
    return phases[value] = phase;
  }

  // ---- evaluation ----

  /// The value's elements in the strip at hand, one vector.
  Value strip(Value value) {
    if (!isWide(value)) return e.splat(scalar(value), lanes);
    if (Value known = stripValues.lookup(value)) return known;
    return stripValues[value] = makeStrip(value);
  }

  Value makeStrip(Value value) {
    if (const TileBuffer *buffer = lowering.buffer(value))
      return loadStripFrom(*buffer, rowOf(value), column);
    Operation *op = value.getDefiningOp();
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) return e.splat(scalarConstant(constant), lanes);
    if (auto iota = dyn_cast<tile::IotaOp>(op)) {
      SmallVector<int32_t> numbers(lanes);
      for (int64_t lane = 0; lane < lanes; ++lane)
        numbers[lane] = lane;
      Value first = e.add(lowering.scalar(iota.getBegin()), column);
      Value start = b.create<arith::IndexCastOp>(b.getI32Type(), first);
      Value steps = b.create<arith::ConstantOp>(b.getI32VectorAttr(numbers));
      return b.create<arith::AddIOp>(e.splat(start, lanes), steps);
    }
    if (auto broadcast = dyn_cast<tile::BroadcastOp>(op)) return strip(broadcast.getValue());
    if (isa<tile::LoadOp, tile::LoadRowsOp>(op)) {
      RowAccess access = rowAccess(op);
      Type element = tileType(value).getElementType();
      if (readsAhead && tile::isInterior(op)) prefetch(access, element);
      return e.load(e.address(access.pointer, column, element), element, lanes, stripMask(op, access));
    }
    return cloneOn(
        op, [&](Value operand) { return strip(operand); }, true);
  }

  /// The lines of memory that a strip takes, so far ahead of it.
  void prefetch(const RowAccess &access, Type element) {
    const int64_t bytes = element.getIntOrFloatBitWidth() / 8;
    for (int64_t at = 0; at < lanes; at += kLineBytes / bytes) {
      Value ahead = e.add(column, e.index(kBytesAhead / bytes + at));
      b.create<LLVM::Prefetch>(e.address(access.pointer, ahead, element), /*rw=*/0, /*hint=*/3, /*cache=*/1);
    }
  }

  /// The value's element in the row at hand.
  Value scalar(Value value) {
    if (Value known = rowValues.lookup(value)) return known;
    OpBuilder::InsertionGuard guard(b);
    if (columnLoop) b.setInsertionPoint(columnLoop);
    return rowValues[value] = makeScalar(value);
  }

  Value makeScalar(Value value) {
    if (const TileBuffer *buffer = lowering.buffer(value)) return loadScalarFrom(*buffer, rowOf(value));
    Operation *op = value.getDefiningOp();
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) return scalarConstant(constant);
    if (auto splat = dyn_cast<tile::SplatOp>(op)) {
      Value from = lowering.scalar(splat.getScalar());
      Type element = tileType(value).getElementType();
      return from.getType().isIndex() ? Value(b.create<arith::IndexCastOp>(element, from)) : from;
    }
    if (auto iota = dyn_cast<tile::IotaOp>(op))
      return b.create<arith::IndexCastOp>(b.getI32Type(),
                                          e.add(lowering.scalar(iota.getBegin()), rowOf(value)));
    if (auto broadcast = dyn_cast<tile::BroadcastOp>(op)) return scalar(broadcast.getValue());
    if (auto reduce = dyn_cast<tile::ReduceOp>(op)) // of a column along its only element
      return scalar(reduce.getValue());
    if (isa<tile::LoadOp, tile::LoadRowsOp, tile::LoadElementsOp>(op)) {
      RowAccess access = rowAccess(op);
      return e.loadScalar(access.pointer, tileType(value).getElementType(), isFirstLive(access));
    }
    return cloneOn(
        op, [&](Value operand) { return scalar(operand); }, false);
  }

  /// The row of a value that the row at hand stands for: tiles of one row serve every row of the nest.
  Value rowOf(Value value) { return tileType(value).getDimSize(0) == 1 ? e.index(0) : row; }

  Value scalarConstant(arith::ConstantOp constant) {
    auto elements = cast<DenseElementsAttr>(constant.getValue());
    return b.create<arith::ConstantOp>(cast<TypedAttr>(elements.getSplatValue<Attribute>()));
  }

  /// An arith or math op with other operands; 16-bit floats are converted by hand.
  Value cloneOn(Operation *op, llvm::function_ref<Value(Value)> evaluate, bool vector) {
    Type element = tileType(op->getResult(0)).getElementType();
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(tileType(operand) ? evaluate(operand) : lowering.scalar(operand));
    if (isa<arith::ExtFOp>(op)) return vector && inPairs ? e.widenPairs(operands[0]) : e.widen(operands[0]);
    if (isa<arith::TruncFOp>(op))
      return vector && inPairs ? e.narrowPairs(operands[0]) : e.narrow(operands[0], element);
    if (isa<tile::MulHighOp>(op)) return b.create<arith::MulUIExtendedOp>(operands[0], operands[1]).getHigh();
    Type type = vector ? Type(e.vectorOf(element, lanes)) : element;
    OperationState state(e.b.getLoc(), op->getName());
    state.addOperands(operands);
    state.addTypes(type);
    state.addAttributes(op->getAttrDictionary().getValue());
    return b.create(state)->getResult(0);
  }

  // ---- memory ----

  /// The access of a load or store in the row at hand; the first element is the tile's first column.
  RowAccess rowAccess(Operation *op) {
    if (auto found = accesses.find(op); found != accesses.end()) return found->second;
    OpBuilder::InsertionGuard guard(b);
    if (columnLoop) b.setInsertionPoint(columnLoop);
    return accesses[op] = makeRowAccess(op);
  }

  RowAccess makeRowAccess(Operation *op) {
    auto number = [&](Value index) -> Value {
      return b.create<arith::IndexCastOp>(b.getIndexType(), scalar(index));
    };
    if (auto load = dyn_cast<tile::LoadOp>(op))
      return blockAccess(load.getView(), load.getOffsets(), tileType(load.getResult()));
    if (auto store = dyn_cast<tile::StoreOp>(op))
      return blockAccess(store.getView(), store.getOffsets(), tileType(store.getValue()));
    if (auto add = dyn_cast<tile::ReduceAddOp>(op))
      return blockAccess(add.getView(), add.getOffsets(), tileType(add.getValue()));
    if (auto load = dyn_cast<tile::LoadRowsOp>(op))
      return numberedRow(load.getView(), number(load.getRows()), load.getColumn());
    if (auto store = dyn_cast<tile::StoreRowsOp>(op))
      return numberedRow(store.getView(), number(store.getRows()), store.getColumn());
    auto load = cast<tile::LoadElementsOp>(op);
    return access(lowering.view(load.getView()), e.add(lowering.scalar(load.getRow()), row),
                  number(load.getColumns()), true);
  }

  RowAccess numberedRow(Value view, Value at, Value column) {
    if (!column) return access(lowering.view(view), at, {}, false);
    return access(lowering.view(view), at, lowering.scalar(column), !isNeverNegative(column));
  }

  RowAccess blockAccess(Value viewValue, ValueRange offsets, RankedTensorType type) {
    const MemoryView &view = lowering.view(viewValue);
    Value first = lowering.scalar(offsets[0]);
    Value here = type.getDimSize(0) == 1 ? first : e.add(first, row);
    if (view.sizes.size() == 2)
      return access(view, here, lowering.scalar(offsets[1]), !isNeverNegative(offsets[1]));
    // A vector along a row of tiles is one row of memory; along a column, each element is a row of its own.
    if (type.getDimSize(1) > 1)
      return {e.address(view.pointer, first, view.element), e.sub(view.sizes[0], first),
              isNeverNegative(offsets[0]) ? Value() : e.sub(e.index(0), first)};
    return access(view, here, {}, false);
  }

  /// `column` is null for a vector, whose rows are its elements.
  RowAccess access(const MemoryView &view, Value at, Value firstColumn, bool mayBeNegative) {
    Value inside = b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, at, view.sizes[0]);
    Value offset = at, live = e.index(1);
    if (firstColumn) {
      offset = e.add(e.mul(at, view.rowStride), firstColumn);
      live = e.sub(view.sizes[1], firstColumn);
    }
    // A masked store to an address that is not mapped is dropped as it should be, but takes hundreds of
    // cycles.
    offset = b.create<arith::SelectOp>(inside, offset, e.index(0));
    return {e.address(view.pointer, offset, view.element),
            b.create<arith::SelectOp>(inside, live, e.index(0)),
            mayBeNegative ? e.sub(e.index(0), firstColumn) : Value()};
  }

  /// Whether the first element of a row lies inside the view (i1).
  Value isFirstLive(const RowAccess &access) {
    Value inside = e.less(e.index(0), access.live);
    if (!access.first) return inside;
    return e.both(inside, b.create<arith::CmpIOp>(arith::CmpIPredicate::sle, access.first, e.index(0)));
  }

  /// Null where every column of every strip is there.
  Value stripMask(Operation *op, const RowAccess &access) {
    if (isWhole || tile::isInterior(op)) return partMask;
    Value mask =
        e.laneMask(e.sub(access.live, column), lanes, access.first ? e.sub(access.first, column) : Value());
    return partMask ? e.both(mask, partMask) : mask;
  }

  void storeStrip(const Sink &sink, Value value) {
    RowAccess access = rowAccess(sink.op);
    Value pointer = e.address(access.pointer, column, tileType(sink.value).getElementType());
    Value mask = stripMask(sink.op, access);
    if (isa<tile::ReduceAddOp>(sink.op))
      value = addUp(e.load(pointer, getElementTypeOrSelf(value), lanes, mask), value);
    e.store(pointer, value, mask);
  }

  void storeElement(Operation *op, Value value) {
    RowAccess access = rowAccess(op);
    Value live = isFirstLive(access);
    if (isa<tile::ReduceAddOp>(op)) value = addUp(e.loadScalar(access.pointer, value.getType(), live), value);
    e.storeScalar(access.pointer, value, live);
  }

  Value placeIn(const TileBuffer &buffer, Value atRow, Value atColumn) {
    Value inRow = buffer.rows == 1 ? e.index(0) : atRow;
    return e.address(buffer.pointer, e.add(e.mul(inRow, e.index(buffer.stride)), atColumn),
                     storedType(buffer.element));
  }

  Value fromStored(Value loaded, Type element) {
    if (!element.isInteger(1)) return loaded;
    return b.create<arith::TruncIOp>(withElement(loaded.getType(), element), loaded);
  }
  Value toStored(Value value) {
    Type element = getElementTypeOrSelf(value);
    if (!element.isInteger(1)) return value;
    return b.create<arith::ExtUIOp>(withElement(value.getType(), storedType(element)), value);
  }

  Value loadStripFrom(const TileBuffer &buffer, Value atRow, Value atColumn) {
    Value loaded = e.load(placeIn(buffer, atRow, atColumn), storedType(buffer.element), lanes);
    return fromStored(loaded, buffer.element);
  }
  void storeStripTo(const TileBuffer &buffer, Value atRow, Value atColumn, Value value) {
    e.store(placeIn(buffer, atRow, atColumn), toStored(value));
  }
  Value loadScalarFrom(const TileBuffer &buffer, Value atRow) {
    Value loaded = e.load(placeIn(buffer, atRow, e.index(0)), storedType(buffer.element), 1);
    return fromStored(e.only(loaded), buffer.element);
  }
  void storeScalarTo(const TileBuffer &buffer, Value atRow, Value value) {
    e.store(placeIn(buffer, atRow, e.index(0)), e.splat(toStored(value), 1));
  }

  void overColumns(int64_t columns, llvm::function_ref<void(Value)> body) {
    e.loop(e.index(0), e.index(columns), e.index(lanes), body);
  }

  // ---- reductions ----

  Value addUp(Value a, Value c) {
    if (isa<FloatType>(getElementTypeOrSelf(a))) return b.create<arith::AddFOp>(a, c);
    return b.create<arith::AddIOp>(a, c);
  }

  FunctionLowering &lowering;
  Emitter &e;
  ImplicitLocOpBuilder &b;
  const NestPlan &plan;
  const int64_t widest;
  const bool inPairs;
  int64_t lanes; ///< of the strips at hand
  Operation *rowLoop = nullptr, *columnLoop = nullptr;
  Value row, column, partMask;
  bool isWhole = false;                       ///< no lane of the strip at hand lies outside a view
  bool readsAhead = false;                    ///< the loop takes long, or is not the first over its rows
  llvm::MapVector<Value, TileBuffer> pending; ///< what becomes a buffer when the nest is done
  DenseMap<Value, Value> stripValues, rowValues;
  DenseMap<Value, int> phases;
  DenseMap<Operation *, RowAccess> accesses;
};

} // namespace

void emitCluster(FunctionLowering &lowering, ArrayRef<Operation *> cluster) {
  for (const NestPlan &plan : planNests(lowering, cluster))
    NestEmitter(lowering, plan).emit();
}

void emitMaterialised(FunctionLowering &lowering, Value value) {
  auto type = tileType(value);
  NestPlan plan{type.getDimSize(0), type.getDimSize(1), {{Sink::Kind::materialise, nullptr, value}}};
  NestEmitter(lowering, plan).emit();
}

} // namespace tilewright::cpu
