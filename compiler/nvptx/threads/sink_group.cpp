#include "compiler/nvptx/threads/sink_group.h"

#include <algorithm>

#include "compiler/nvptx/threads/memory_access.h"
#include "compiler/nvptx/threads/product_masks.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::nvptx {

using namespace mlir;

SmallVector<Operation *> neededBy(ArrayRef<Operation *> sinks) {
  SmallVector<Operation *> needed;
  llvm::SmallPtrSet<Operation *, 16> visited;
  auto visit = [&](auto &self, Value value) -> void {
    Operation *op = value.getDefiningOp();
    if (!op || !isTile(value) || !(isElementwise(op) || isLoad(op)) || !visited.insert(op).second) return;
    for (Value operand : op->getOperands())
      self(self, operand);
    needed.push_back(op);
  };
  for (Operation *op : sinks)
    for (Value operand : op->getOperands())
      visit(visit, operand);
  return needed;
}

/// Whether a tile has one row or one column.
static bool isNarrow(Value tile) {
  auto type = tile::tileType(tile);
  return type.getDimSize(0) == 1 || type.getDimSize(1) == 1;
}

/// Whether it has one row of several columns.
static bool isRow(Value tile) {
  auto type = tile::tileType(tile);
  return type.getDimSize(0) == 1 && type.getDimSize(1) > 1;
}

void SinkGroup::emit() {
  open();
  emitPieces();
  combine();
}

void SinkGroup::open() {
  llvm::stable_sort(sinks, [](const auto &a, const auto &b) { return a.second < b.second; });
  layout = lowering.layouts().of(sinks.front().first->getOperand(0));
  for (auto [op, turn] : sinks) {
    ops.push_back(op);
    if (isStore(op)) {
      lowering.order().before(op);
      targets.push_back(storeTarget(op));
    } else {
      sums.emplace_back(lowering, cast<tile::ReduceOp>(op));
      turns.push_back(turn);
    }
  }
  MutableArrayRef<RegisterSums> first = sumsOf(Turn::first);
  for (RegisterSums &place : sumsOf(Turn::place))
    place.follow(*llvm::find_if(
        first, [&](RegisterSums &sum) { return sum.operation() == placedMaximum(place.operation()); }));
}

std::unique_ptr<StoreTarget> SinkGroup::storeTarget(Operation *store) {
  if (role)
    if (auto target = role->storeTarget(store)) return target;
  return std::make_unique<MemoryAccess>(lowering, store);
}

MutableArrayRef<RegisterSums> SinkGroup::sumsOf(Turn turn) {
  auto [begin, end] = std::equal_range(turns.begin(), turns.end(), turn);
  return MutableArrayRef<RegisterSums>(sums).slice(begin - turns.begin(), end - begin);
}

/// What threads have of the sums becomes whole; places need their maxima.
void SinkGroup::combine() {
  MutableArrayRef<RegisterSums> first = sumsOf(Turn::first), places = sumsOf(Turn::place);
  SmallVector<SmallVector<Value>> own;
  for (RegisterSums &place : places)
    own.push_back(place.maximum().values());
  combineAcrossThreads(lowering, first);
  for (auto [place, maxima] : llvm::zip(places, own))
    place.keepWhere(maxima);
  combineAcrossThreads(lowering, places);
  for (RegisterSums &sum : sums)
    lowering.elements().set(sum.result(), sum.values());
}

// ---- pieces ----

StoreTarget::Piece SinkGroup::wantedPiece() const {
  StoreTarget::Piece piece{1, layout.columns->registers()};
  for (auto &target : targets)
    if (target->piece().columns < piece.columns || target->piece().rows > piece.rows) piece = target->piece();
  return piece;
}

EpiloguePieces SinkGroup::plan() {
  EpilogueWork work;
  work.rows = layout.rows->registers();
  work.columns = layout.columns->registers();
  work.hasRole = role != nullptr;
  work.stores = targets.size();
  work.sums = sums.size();
  work.sumsRows = llvm::all_of(sums, [](RegisterSums &sum) { return sum.sumsRows(); });
  work.wanted = wantedPiece();
  const auto needed = neededBy(ops);
  work.steps = needed.size();
  work.storesF32 = llvm::any_of(
      ops, [](Operation *op) { return isStore(op) && tile::elementOf(op->getOperand(0).getType()).isF32(); });
  work.tanhs = llvm::count_if(needed, [](Operation *op) { return isa<math::TanhOp>(op); });
  work.blocks = unknownLoads([](Value tile) { return !isNarrow(tile); }).size();
  for (Operation *load : unknownLoads(isRow))
    work.rowVector = std::max(work.rowVector, lowering.layouts().of(load->getResult(0)).columns->registers());
  return piecesOf(work);
}

void SinkGroup::emitPieces() {
  const EpiloguePieces pieces = plan();
  const auto rounding = lowering.elements().roundingPairs(pieces.roundsPairs);
  evaluateNarrowLoads(pieces);
  if (pieces.isFull && role) maskProducts(lowering, neededBy(ops));
  if (pieces.loadsParts) {
    blocks = unknownLoads([](Value tile) { return !isNarrow(tile); });
    rowVectors = unknownLoads(isRow);
  }
  if (pieces.isTall) return emitTallPieces(pieces);
  const auto [rows, columns] = pieces.piece;
  if (pieces.loadsAhead) loadBlocks(pieces, 0, 0);
  for (int64_t row = 0; row < layout.rows->registers(); row += rows)
    for (int64_t column = 0; column < layout.columns->registers(); column += columns) {
      const bool isLast = column + columns == layout.columns->registers();
      if (pieces.loadsAhead) loadBlocks(pieces, isLast ? row + rows : row, isLast ? 0 : column + columns);
      emitPiece(pieces, row, column);
    }
}

void SinkGroup::emitTallPieces(const EpiloguePieces &pieces) {
  const int64_t rows = layout.rows->registers();
  EpiloguePieces next = pieces;
  for (int64_t row = 0; row < rows; row += next.piece.rows) {
    next.piece.rows = next.part.rows = pieces.tallRows(row, rows);
    emitPiece(next, row, 0);
  }
}

void SinkGroup::loadBlocks(const EpiloguePieces &pieces, int64_t row, int64_t column) {
  if (row == layout.rows->registers()) return;
  for (Operation *op : blocks)
    lowering.elements().load(op, row, column, pieces.part);
}

void SinkGroup::emitPiece(const EpiloguePieces &pieces, int64_t row, int64_t column) {
  const auto [rows, columns] = pieces.part;
  for (int64_t r = row; r < row + pieces.piece.rows; r += rows)
    for (int64_t c = column; c < column + pieces.piece.columns; c += columns)
      if (pieces.areBlocks)
        inBlockOfItsOwn(r, rows, [&] { emitPart(pieces, r, c); });
      else
        emitPart(pieces, r, c);
}

void SinkGroup::emitPart(const EpiloguePieces &pieces, int64_t row, int64_t column) {
  if (!pieces.loadsAhead) loadBlocks(pieces, row, column);
  // Else ptxas moves each load to its use, which waits for it.
  if (pieces.isCrowded) e.warpBarrier();
  for (Operation *op : rowVectors)
    lowering.elements().load(op, 0, column, {1, pieces.part.columns});
  const auto [rows, columns] = pieces.piece;
  const int64_t firstRow = row / rows * rows, firstColumn = column / columns * columns;
  for (auto &target : targets)
    if (row == firstRow && column == firstColumn) target->open(row, column);
  evaluatePart(pieces.part, row, column);
  for (auto &target : targets)
    if (row + pieces.part.rows == firstRow + rows && column + pieces.part.columns == firstColumn + columns)
      target->close(firstRow, firstColumn);
}

void SinkGroup::evaluatePart(StoreTarget::Piece part, int64_t row, int64_t column) {
  SmallVector<SmallVector<SmallVector<Value>>> stored(targets.size(),
                                                      SmallVector<SmallVector<Value>>(part.rows));
  auto evaluate = [&](Value tile, int64_t r, int64_t c) { return lowering.elements().evaluate(tile, r, c); };
  // What all rows of a column have in common, such as whether it lies inside, is not kept for long.
  for (int64_t c = column; c < column + part.columns; ++c)
    for (int64_t r = 0; r < part.rows; ++r) {
      for (RegisterSums &sum : sums)
        if (sum.follows()) sum.find(row + r, c);
      size_t nextTarget = 0, nextSum = 0;
      for (Operation *op : ops)
        if (isStore(op))
          stored[nextTarget++][r].push_back(evaluate(op->getOperand(0), row + r, c));
        else if (RegisterSums &sum = sums[nextSum++]; !sum.follows())
          sum.add(row + r, c, evaluate(sum.operand(), row + r, c));
    }
  for (auto [target, values] : llvm::zip(targets, stored))
    target->store(row, column, values);
}

/// Behind a condition that always holds and ptxas cannot tell: it works within a basic block on as many rows
/// at once as it likes, and would run out of registers. What `body` adds to rows [row, row + rows) of the
/// sums goes on behind it; nothing else that it evaluates does.
void SinkGroup::inBlockOfItsOwn(int64_t row, int64_t rows, llvm::function_ref<void()> body) {
  Value programs = e.b.create<NVVM::GridDimXOp>(e.b.getI32Type());
  Value always = e.i32(0) < e.num(e.pinned(programs));
  auto current = [&] {
    SmallVector<Value> values;
    for (RegisterSums &sum : sums)
      for (int64_t r = row; r < row + rows; ++r)
        values.push_back(sum.values()[r] ? sum.values()[r] : sum.neutral());
    return values;
  };
  SmallVector<Value> before = current();
  auto block = e.b.create<scf::IfOp>(TypeRange(ValueRange(before)), always, /*addThenBlock=*/true,
                                     /*addElseBlock=*/true);
  e.inside(block.elseBlock(), [&] { e.b.create<scf::YieldOp>(before); });
  lowering.elements().within([&] {
    e.inside(block.thenBlock(), [&] {
      body();
      e.b.create<scf::YieldOp>(current());
    });
  });
  ValueRange after = block.getResults();
  for (RegisterSums &sum : sums) {
    llvm::copy(after.take_front(rows), sum.values().begin() + row);
    after = after.drop_front(rows);
  }
}

// ---- loads ----

SmallVector<Operation *> SinkGroup::loads() const {
  Ops found = neededBy(ops);
  llvm::erase_if(found, [](Operation *op) { return !isLoad(op); });
  return found;
}

/// Loads of some tiles that the group needs whose elements are not known yet.
SmallVector<Operation *> SinkGroup::unknownLoads(llvm::function_ref<bool(Value)> isWanted) const {
  Ops found = loads();
  llvm::erase_if(found, [&](Operation *load) {
    Value tile = load->getResult(0);
    return !isWanted(tile) || lowering.elements().hasFirst(tile);
  });
  return found;
}

/// Loads of columns and of short rows that the group needs: all before the first element, so that their
/// latency is paid once.
void SinkGroup::evaluateNarrowLoads(const EpiloguePieces &pieces) {
  for (Operation *load : loads()) {
    Value tile = load->getResult(0);
    const TileLayout layout = lowering.layouts().of(tile);
    const bool isLong =
        layout.columns->registers() > pieces.narrow || (pieces.isTall && layout.rows->registers() > 1);
    if (isNarrow(tile) && !isLong) lowering.elements().evaluateAll(tile);
  }
}

} // namespace tilewright::nvptx
