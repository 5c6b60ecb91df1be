#include "compiler/nvptx/threads/memory_access.h"

#include <numeric>

#include "compiler/nvptx/ptx/async_copy.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tilewright::nvptx {

using namespace mlir;

constexpr int64_t kVectorBytes = 16;

SmallVector<Value> unpackPair(Emitter &e, Type element, Value word) {
  SmallVector<Value> pair;
  for (Value half : {word, (e.num(word) >> 16).value})
    pair.push_back(e.bitcast(element, e.b.create<arith::TruncIOp>(e.b.getIntegerType(16), half)));
  return pair;
}

/// What unpackPair made two numbers of, or null.
static Value wordOf(Value low, Value high) {
  auto bits = [](Value number) {
    auto cast = number.getDefiningOp<arith::BitcastOp>();
    auto half = cast ? cast.getIn().getDefiningOp<arith::TruncIOp>() : arith::TruncIOp();
    return half ? half.getIn() : Value();
  };
  auto shifted = bits(high) ? bits(high).getDefiningOp<arith::ShRUIOp>() : arith::ShRUIOp();
  const bool isHigh = shifted && getConstantIntValue(shifted.getRhs()) == 16;
  return isHigh && shifted.getLhs() == bits(low) ? bits(low) : Value();
}

Value packPair(Emitter &e, Value low, Value high) {
  if (Value word = wordOf(low, high)) return word;
  Type i16 = e.b.getIntegerType(16), i32 = e.b.getI32Type();
  Value lowBits = e.b.create<arith::ExtUIOp>(i32, e.bitcast(i16, low));
  Value highBits = e.b.create<arith::ExtUIOp>(i32, e.bitcast(i16, high));
  return e.b.create<arith::OrIOp>(lowBits, e.b.create<arith::ShLIOp>(highBits, e.i32(16).value));
}

MemoryAccess::MemoryAccess(Lowering &lowering, Operation *op)
    : lowering(lowering), e(lowering.emitter()), op(op), view(lowering.view(viewOf(op))),
      element(view.element) {
  Value tile = tileOf(op);
  isInterior = tile::isInterior(op);
  layout = lowering.layouts().of(tile);
  auto block = [&](ValueRange offsets) {
    if (offsets.size() == 2) {
      firstRow = lowering.scalar(offsets[0]);
      firstColumn = lowering.scalar(offsets[1]);
    } else {
      auto &first = tile::tileType(tile).getDimSize(1) > 1 ? firstColumn : firstRow;
      first = lowering.scalar(offsets[0]);
    }
  };
  auto rows = [&](Value numbers, Value column) {
    rowTile = numbers;
    if (column) firstColumn = lowering.scalar(column);
  };
  if (auto load = dyn_cast<tile::LoadOp>(op)) block(load.getOffsets());
  if (auto store = dyn_cast<tile::StoreOp>(op)) block(store.getOffsets());
  if (auto add = dyn_cast<tile::ReduceAddOp>(op)) block(add.getOffsets());
  if (auto load = dyn_cast<tile::LoadRowsOp>(op)) rows(load.getRows(), load.getColumn());
  if (auto store = dyn_cast<tile::StoreRowsOp>(op)) rows(store.getRows(), store.getColumn());
  if (auto load = dyn_cast<tile::LoadElementsOp>(op)) {
    firstRow = lowering.scalar(load.getRow());
    columnTile = load.getColumns();
  }
  int64_t replicas = (lowering.layouts().threads() - 1) & ~layout.threadMask();
  if (isStore(op) && replicas) isCanonical = (e.thread() & replicas) == 0;
  if (firstColumn) {
    findGranule();
    if (isInterior) return;
    findColumns();
    findVectors();
  }
}

/// See InteriorOp: there every vector is aligned, whichever granule an access has.
Num interiorColumns(Lowering &lowering, tile::InteriorOp op) {
  Emitter &e = lowering.emitter();
  Num columns = lowering.scalar(op.getWidth()), addresses = e.i64(0);
  auto include = [&](Num bits) { addresses = e.num(e.either(addresses.value, bits.value)); };
  for (Value accessed : op.getViews()) {
    const MemoryView &view = lowering.view(accessed);
    columns = minimum(columns, view.sizes.back());
    include(e.i64(op.getStep() * bytesOf(view.element)));
    include(view.pointer);
    if (view.sizes.size() == 2) include(view.rowStride * bytesOf(view.element));
  }
  Value isAligned = (addresses & (kVectorBytes - 1)) == 0;
  columns = e.choose(isAligned, maximum(columns, e.i64(0)), e.i64(0));
  return columns / op.getStep() * op.getStep();
}

/// Positions [low, low + count) of the tile's columns lie inside the view and the tile.
void MemoryAccess::findColumns() {
  Num extent = e.i64(layout.columns->extent), zero = e.i64(0);
  auto clamp = [&](Num x) { return minimum(maximum(x, zero), extent); };
  Num low = clamp(zero - *firstColumn), high = clamp(view.sizes.back() - *firstColumn);
  columnLow = e.narrow(low);
  columnCount = e.narrow(high - low);
}

void MemoryAccess::findGranule() {
  int64_t bytes = bytesOf(element);
  granule = std::gcd(std::gcd(layout.columns->run, layout.columns->extent), kVectorBytes / bytes);
  if (granule * bytes < 4) granule = 1;
}

/// Vectors fit when every vector is aligned and lies wholly inside the view or wholly outside.
void MemoryAccess::findVectors() {
  int64_t bytes = bytesOf(element);
  if (granule == 1) return;
  // Rows are then whole vectors, see CompileOptions; LLVM sees that a block begins at one.
  if (lowering.options().hopper && (rowTile || lowering.memory().isReadBeside(view.root))) {
    vectorsFit = ((*firstColumn * bytes) & (granule * bytes - 1)) == 0;
    return;
  }
  Num bits = view.pointer + *firstColumn * bytes;
  if (view.sizes.size() == 2) // the first column is aligned by itself, lest a vector straddle the view's end
    bits = e.num(e.either(bits.value, (view.rowStride * bytes).value));
  Num all = e.num(e.either(bits.value, (*firstColumn * bytes).value));
  Value aligned = (all & (granule * bytes - 1)) == 0;
  Value even = (view.sizes.back() & (granule - 1)) == 0;
  Num end = *firstColumn + layout.columns->extent;
  Value interior =
      e.b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::sle, end.value, view.sizes.back().value);
  vectorsFit = e.both(aligned, e.either(even, interior));
}

Num MemoryAccess::rowNumber(int64_t row) {
  if (rowTile) return e.wide(e.num(lowering.elements().evaluate(rowTile, row, 0)));
  if (!lowering.options().swapsOperands) return *firstRow + e.wide(lowering.position(*layout.rows, row));
  // A thread has many rows of a transposed tile. The sum of its place and a constant is the same in all
  // programs, so that LLVM would compute it once, and each row would take a register: the constant comes
  // last.
  return *firstRow + e.wide(lowering.threadPosition(*layout.rows)) + layout.rows->offsets[row];
}

MemoryAccess::Row MemoryAccess::rowAt(int64_t row) {
  Num offset = e.i64(0);
  Value live = isCanonical;
  auto require = [&](Value condition) { live = live ? e.both(live, condition) : condition; };
  if (rowTile || firstRow) {
    Num number = rowNumber(row);
    if (!isInterior) require(unsignedLess(number, view.sizes[0]));
    if (layout.rows->isPadded()) require(lowering.position(*layout.rows, row) < layout.rows->extent);
    offset = view.sizes.size() == 2 ? number * view.rowStride : number;
  }
  if (columnTile) {
    Num number = e.wide(e.num(lowering.elements().evaluate(columnTile, row, 0)));
    require(unsignedLess(number, view.sizes[1]));
    offset = offset + number;
  }
  if (firstColumn) offset = offset + *firstColumn + e.wide(lowering.threadPosition(*layout.columns));
  return {view.pointer + offset * bytesOf(element), live};
}

Value MemoryAccess::liveAt(const Row &row, int64_t column) {
  if (!firstColumn || (isInterior && !layout.columns->isPadded())) return row.live;
  Num position = lowering.position(*layout.columns, column);
  Value inside =
      isInterior ? position < layout.columns->extent : unsignedLess(position - columnLow, columnCount);
  return row.live ? e.both(row.live, inside) : inside;
}

/// 16-bit elements travel in pairs, or as integers.
Type MemoryAccess::wordType() const {
  if (bytesOf(element) == 2) return granule > 1 ? e.b.getI32Type() : e.b.getIntegerType(16);
  return element;
}

void MemoryAccess::unpack(ValueRange words, SmallVector<Value> &elements) {
  for (Value word : words) {
    if (bytesOf(element) != 2 || !word.getType().isInteger(32)) {
      elements.push_back(e.bitcast(element, word));
      continue;
    }
    elements.append(unpackPair(e, element, word));
  }
}

SmallVector<Value> MemoryAccess::pack(ValueRange elements) {
  SmallVector<Value> words;
  if (wordType().isInteger(32) && bytesOf(element) == 2) {
    for (size_t i = 0; i < elements.size(); i += 2)
      words.push_back(packPair(e, elements[i], elements[i + 1]));
  } else {
    for (Value x : elements)
      words.push_back(e.bitcast(wordType(), x));
  }
  return words;
}

SmallVector<Value> MemoryAccess::loadWords(Num address, int64_t offset, Type word, int64_t words,
                                           Value live) {
  if (view.isShared) return e.loadShared(e.narrow(address), offset, word, words, live);
  return e.loadGlobal(address, offset, word, words, live);
}

void MemoryAccess::storeWords(Num address, int64_t offset, ValueRange words, Value live) {
  if (view.isShared) return e.storeShared(e.narrow(address), offset, words, live);
  e.storeGlobal(address, offset, words, live);
}

SmallVector<Value> MemoryAccess::loadVectors(const Row &row, Stretch stretch) {
  SmallVector<Value> elements;
  int64_t words = granule * bytesOf(element) / bytesOf(wordType());
  for (int64_t c = stretch.column; c < stretch.column + stretch.count; c += granule) {
    Value live = liveAt(row, c);
    int64_t offset = layout.columns->offsets[c] * bytesOf(element);
    unpack(loadWords(row.address, offset, wordType(), words, live), elements);
  }
  return elements;
}

SmallVector<Value> MemoryAccess::loadElements(const Row &row, Stretch stretch) {
  SmallVector<Value> elements;
  Type word = bytesOf(element) == 2 ? e.b.getIntegerType(16) : element;
  for (int64_t c = stretch.column; c < stretch.column + stretch.count; ++c) {
    Value live = liveAt(row, c);
    int64_t offset = layout.columns->offsets[c] * bytesOf(element);
    elements.push_back(e.bitcast(element, loadWords(row.address, offset, word, 1, live)[0]));
  }
  return elements;
}

void MemoryAccess::storeVectors(const Row &row, int64_t column, ValueRange values) {
  for (size_t i = 0; i < values.size(); i += granule) {
    Value live = liveAt(row, column + i);
    int64_t offset = layout.columns->offsets[column + i] * bytesOf(element);
    storeWords(row.address, offset, pack(values.slice(i, granule)), live);
  }
}

void MemoryAccess::storeElements(const Row &row, int64_t column, ValueRange values) {
  Type word = bytesOf(element) == 2 ? e.b.getIntegerType(16) : element;
  for (auto [i, value] : llvm::enumerate(values)) {
    Value live = liveAt(row, column + i);
    int64_t offset = layout.columns->offsets[column + i] * bytesOf(element);
    storeWords(row.address, offset, e.bitcast(word, value), live);
  }
}

void MemoryAccess::ifVectors(SmallVector<Type> results, llvm::function_ref<SmallVector<Value>()> vectors,
                             llvm::function_ref<SmallVector<Value>()> elements, SmallVector<Value> &values) {
  if (!vectorsFit) {
    values = granule > 1 ? vectors() : elements();
    return;
  }
  auto branch = e.b.create<scf::IfOp>(results, vectorsFit, /*addThenBlock=*/true, /*addElseBlock=*/true);
  e.inside(branch.thenBlock(), [&] { e.b.create<scf::YieldOp>(vectors()); });
  e.inside(branch.elseBlock(), [&] { e.b.create<scf::YieldOp>(elements()); });
  values.assign(branch.getResults().begin(), branch.getResults().end());
}

void MemoryAccess::prefetch(int64_t row) {
  constexpr int64_t kLine = 128;
  const int64_t bytes = bytesOf(element), sharing = int64_t(1) << layout.columns->bits.size();
  const int64_t lines = (layout.columns->extent * bytes + kLine - 1) / kLine;
  Row where = rowAt(row);
  Num position = lowering.threadPosition(*layout.columns), first = position / layout.columns->bits[0].stride;
  Num begin = where.address - e.wide(position * bytes);
  for (int64_t i = 0; i < lines; i += sharing) {
    Num line = first + i;
    Value inside = unsignedLess(line * (kLine / bytes) - columnLow, columnCount);
    e.prefetchGlobal(begin + e.wide(line * kLine), where.live ? e.both(where.live, inside) : inside);
  }
}

SmallVector<Value> MemoryAccess::load(int64_t row, int64_t column, Piece piece) {
  auto all = [&] { return loadRows(row, column, piece); };
  if (!lowering.presentRows(op)) return all();
  const Value zero = e.b.create<arith::ConstantOp>(e.b.getZeroAttr(element));
  return e.ifElse(hasRows(row, piece), all, SmallVector<Value>(piece.rows * piece.columns, zero));
}

SmallVector<Value> MemoryAccess::addPresent(int64_t row, int64_t column, Piece piece, ValueRange sums) {
  return e.ifElse(
      hasRows(row, piece), [&] { return addTo(sums, loadRows(row, column, piece)); }, sums);
}

/// Whether one of the piece's rows is there, of which `presentRows` told.
Value MemoryAccess::hasRows(int64_t row, Piece piece) {
  Num mine = *lowering.presentRows(op) & (((int64_t(1) << piece.rows) - 1) << row);
  return e.i32(0) < mine;
}

SmallVector<Value> MemoryAccess::loadRows(int64_t row, int64_t column, Piece piece) {
  SmallVector<Row> where;
  for (int64_t r = 0; r < piece.rows; ++r)
    where.push_back(rowAt(row + r));
  return load(where, {column, piece.columns});
}

SmallVector<Value> MemoryAccess::load(ArrayRef<Row> rows, Stretch stretch) {
  auto each = [&](auto loadRow) {
    SmallVector<Value> values;
    for (const Row &row : rows)
      values.append((this->*loadRow)(row, stretch));
    return values;
  };
  SmallVector<Value> values;
  SmallVector<Type> types(rows.size() * stretch.count, element);
  ifVectors(
      types, [&] { return each(&MemoryAccess::loadVectors); },
      [&] { return each(&MemoryAccess::loadElements); }, values);
  return values;
}

Num MemoryAccess::presentRows() {
  Num bits = e.i32(0);
  for (int64_t row = 0; row < layout.rows->registers(); ++row)
    bits = e.num(e.either(bits.value, e.choose(rowAt(row).live, e.i32(int64_t(1) << row), e.i32(0)).value));
  return bits;
}

void MemoryAccess::store(int64_t row, int64_t column, ArrayRef<SmallVector<Value>> rows) {
  for (auto [r, values] : llvm::enumerate(rows)) {
    Row where = rowAt(row + r);
    if (!isa<tile::ReduceAddOp>(op)) {
      storeRow(where, column, values);
      continue;
    }
    storeRow(where, column, addTo(load(where, {column, int64_t(values.size())}), values));
  }
}

void MemoryAccess::storeRow(const Row &row, int64_t column, ValueRange values) {
  SmallVector<Value> none;
  ifVectors(
      {}, [&] { return storeVectors(row, column, values), SmallVector<Value>(); },
      [&] { return storeElements(row, column, values), SmallVector<Value>(); }, none);
}

SmallVector<Value> MemoryAccess::addTo(ValueRange old, ValueRange values) {
  SmallVector<Value> sums;
  for (auto [before, value] : llvm::zip(old, values))
    sums.push_back(isa<FloatType>(element) ? e.b.createOrFold<arith::AddFOp>(before, value)
                                           : e.b.createOrFold<arith::AddIOp>(before, value));
  return sums;
}

bool canCopy(const Layouts &layouts, Value tile) {
  TileLayout layout = layouts.of(tile);
  int64_t bytes = bytesOf(tile::elementOf(tile.getType()));
  int64_t vector = std::gcd(std::gcd(layout.columns->run, layout.columns->extent), kVectorBytes / bytes);
  return vector * bytes == kVectorBytes && !layout.columns->isPadded() && !layout.rows->isPadded() &&
         layout.threadMask() == layouts.threads() - 1;
}

void MemoryAccess::copyTo(MemoryAccess store) {
  for (int64_t r = 0; r < layout.rows->registers(); ++r) {
    Row from = rowAt(r), to = store.rowAt(r);
    for (int64_t c = 0; c < layout.columns->registers(); c += granule) {
      Num offset = e.i64(layout.columns->offsets[c] * bytesOf(element));
      copyAsync(e, e.narrow(to.address + offset), from.address + offset, kVectorBytes);
    }
  }
}

} // namespace tilewright::nvptx
