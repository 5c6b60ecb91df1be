// How FunctionLowering emits stores and reductions.

#include <algorithm>

#include "compiler/nvptx/threads/deferred_sums.h"
#include "compiler/nvptx/threads/exchange.h"
#include "compiler/nvptx/threads/function_lowering.h"
#include "compiler/nvptx/threads/memory_access.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/SaveAndRestore.h"

namespace tilewright::nvptx {

using namespace mlir;

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

constexpr int64_t kManyRegisters = 64; ///< of accumulators, which leave few for the rest
constexpr int64_t kFewSums = 3;        ///< that leave registers to round numbers in pairs
constexpr size_t kFewLoads = 1;        ///< of blocks, for which there are registers beside accumulators
constexpr int64_t kPieceColumns = 16;  ///< registers of a row that are then worked on at once, or half
constexpr int64_t kManySteps = 26;     ///< to a number, of which two rows at once would not fit beside those
constexpr int64_t kTanhSteps = 8;      ///< `expand_math` has two ways to it

void FunctionLowering::flush() {
  while (!pending.empty()) {
    SmallVector<Operation *> group = nextGroup();
    llvm::erase_if(pending, [&](Operation *op) { return llvm::is_contained(group, op); });
    emitGroup(group);
  }
}

bool FunctionLowering::isDeferred(Operation *reduce) const {
  return llvm::any_of(loops, [&](DeferredSums *sums) { return sums->contains(reduce); });
}

/// Whether a reduction must be emitted before `value` can be evaluated.
bool FunctionLowering::dependsOnPending(Value value) const {
  llvm::SmallPtrSet<Operation *, 16> seen;
  SmallVector<Value> open{value};
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second) continue;
    if (isa<tile::ReduceOp>(op) && llvm::is_contained(pending, op)) return true;
    if (!isElementwise(op) && !isLoad(op)) continue;
    llvm::copy_if(op->getOperands(), std::back_inserter(open), isTile);
  }
  return false;
}

/// The maximum in the same group whose place a sink finds beside it.
tile::ReduceOp FunctionLowering::maximumBeside(Operation *op, ArrayRef<Operation *> group) const {
  tile::ReduceOp maximum = placedMaximum(op);
  const bool isBeside =
      maximum && llvm::is_contained(group, maximum) && !isDeferred(op) && !isDeferred(maximum);
  return isBeside ? maximum : tile::ReduceOp();
}

/// Whether a sink has to wait for a reduction.
bool FunctionLowering::waits(Operation *op, ArrayRef<Operation *> group) const {
  auto isWaiting = [&](Value v) { return isTile(v) && dependsOnPending(v); };
  if (maximumBeside(op, group))
    return isWaiting(op->getOperand(0).getDefiningOp<arith::SelectOp>().getTrueValue());
  return llvm::any_of(op->getOperands(), isWaiting);
}

/// The first sink and those behind it that go over the same registers, may move up to it, and wait for no
/// reduction.
SmallVector<Operation *> FunctionLowering::nextGroup() {
  TileLayout layout = layouts_.of(pending.front()->getOperand(0));
  SmallVector<Operation *> group;
  llvm::SmallPtrSet<void *, 4> passed;   // memory that sinks which stay behind write
  auto overwrites = [&](Operation *op) { // at other places than the element that is made beside it
    return isStore(op) && llvm::any_of(group, [&](Operation *other) {
             return isStore(other) && tile::touchOtherPlaces(op, other);
           });
  };
  for (Operation *op : pending) {
    void *root = isStore(op) ? view(viewOf(op)).root.getAsOpaquePointer() : nullptr;
    if (layouts_.of(op->getOperand(0)) == layout && !waits(op, group) && !overwrites(op) &&
        !(root && passed.contains(root)))
      group.push_back(op);
    else if (root)
      passed.insert(root);
  }
  return group;
}

std::unique_ptr<StoreTarget> FunctionLowering::storeTarget(Operation *store) {
  if (role)
    if (auto target = role->storeTarget(store)) return target;
  return std::make_unique<MemoryAccess>(*this, store);
}

void FunctionLowering::emitGroup(SmallVector<Operation *> group) {
  // Places of maxima are known once those are.
  llvm::SmallDenseMap<Operation *, int> rank;
  for (Operation *op : group)
    rank[op] = isDeferred(op) ? 2 : maximumBeside(op, group) ? 1 : 0;
  llvm::stable_sort(group, [&](Operation *a, Operation *b) { return rank[a] < rank[b]; });
  SmallVector<std::unique_ptr<StoreTarget>> targets;
  SmallVector<RegisterSums> sums;
  for (Operation *op : group) {
    if (isStore(op)) {
      orderAccess(op);
      targets.push_back(storeTarget(op));
    } else {
      sums.emplace_back(*this, cast<tile::ReduceOp>(op));
    }
  }
  MutableArrayRef<RegisterSums> whole(sums);
  auto ofRank = [&](int wanted) {
    auto is = [&](RegisterSums &sum) { return rank[sum.operation()] == wanted; };
    return whole.drop_until(is).take_while(is);
  };
  MutableArrayRef<RegisterSums> ordinary = ofRank(0), places = ofRank(1);
  for (RegisterSums &place : places)
    place.follow(*llvm::find_if(
        ordinary, [&](RegisterSums &sum) { return sum.operation() == placedMaximum(place.operation()); }));
  emitPieces(group, layouts_.of(group.front()->getOperand(0)), targets, sums);
  SmallVector<SmallVector<Value>> own;
  for (RegisterSums &place : places)
    own.push_back(place.maximum().values());
  combineAcrossThreads(*this, ordinary);
  for (auto [place, maxima] : llvm::zip(places, own))
    place.keepWhere(maxima);
  combineAcrossThreads(*this, places);
  for (RegisterSums &sum : sums)
    setRegisters(sum.result(), sum.values());
}

/// Rows one by one, or in the pieces that a target wants. Where accumulators fill the registers, warps with
/// roles take pieces of a row, and each piece (or, where there are most accumulators and a store, each of its
/// rows, or a half or a quarter of one) is a basic block of its own. Blocks that it loads are asked for while
/// the piece before is worked on, unless there is so much of them, or of accumulators, that registers would
/// run out.
void FunctionLowering::emitPieces(ArrayRef<Operation *> group, TileLayout layout,
                                  ArrayRef<std::unique_ptr<StoreTarget>> targets,
                                  MutableArrayRef<RegisterSums> sums) {
  const int64_t rows = layout.rows->registers(), columns = layout.columns->registers();
  const bool isFull = layout.registers() > kManyRegisters &&
                      llvm::all_of(sums, [](RegisterSums &sum) { return sum.sumsRows(); });
  const bool isTight = layout.registers() > kManyAccumulators, isLong = isTight && hasManySteps(group);
  const llvm::SaveAndRestore<bool> rounding(roundsPairs, !isTight || sums.size() <= kFewSums);
  StoreTarget::Piece piece{1, columns};
  for (auto &target : targets)
    if (target->piece().columns < piece.columns || target->piece().rows > piece.rows) piece = target->piece();
  const int64_t most = isLong || (isTight && !targets.empty()) ? kPieceColumns / 2 : kPieceColumns;
  if (isFull && role && piece.columns > kPieceColumns && columns % kPieceColumns == 0)
    piece = {targets.empty() && rows % 2 == 0 && !isLong ? 2 : 1, most};
  const bool isSplit = piece.columns < columns || piece.rows > 1;
  evaluateNarrowLoads(group, isFull ? piece.columns : columns);
  if (isFull && role && targets.empty()) maskProducts(group);
  SmallVector<Operation *> loads, rowLoads;
  if (isSplit) {
    loads = unknownLoads(group, [](Value tile) { return !isNarrow(tile); });
    rowLoads = unknownLoads(group, isRow);
  }
  const bool isAhead = loads.size() == 1 && rowLoads.empty() && !isTight;
  const bool isCrowded = loads.size() > kFewLoads && !targets.empty();
  const int64_t step = isCrowded || (isTight && !targets.empty()) ? 1 : piece.rows;
  const int64_t parts = isCrowded && isTight ? 4 : isLong && !targets.empty() && !rowLoads.empty() ? 2 : 1;
  const int64_t width = piece.columns % (2 * parts) == 0 ? piece.columns / parts : piece.columns;
  auto load = [&](int64_t row, int64_t column) {
    for (Operation *op : loads)
      if (row < rows) loadPiece(op, row, column, {step, width});
  };
  auto emit = [&](int64_t row, int64_t column) {
    if (!isAhead) load(row, column);
    // Else ptxas moves each load to its use, which waits for it.
    if (isCrowded) e.warpBarrier();
    for (Operation *op : rowLoads)
      loadPiece(op, 0, column, {1, width});
    const int64_t firstRow = row / piece.rows * piece.rows,
                  firstColumn = column / piece.columns * piece.columns;
    for (auto &target : targets)
      if (row == firstRow && column == firstColumn) target->open(row, column);
    emitPiece(group, row, column, {step, width}, targets, sums);
    for (auto &target : targets)
      if (row + step == firstRow + piece.rows && column + width == firstColumn + piece.columns)
        target->close(firstRow, firstColumn);
  };
  if (isAhead) load(0, 0);
  for (int64_t row = 0; row < rows; row += piece.rows)
    for (int64_t column = 0; column < columns; column += piece.columns) {
      const bool isLast = column + piece.columns == columns;
      if (isAhead) load(isLast ? row + piece.rows : row, isLast ? 0 : column + piece.columns);
      for (int64_t r = row; r < row + piece.rows; r += step)
        for (int64_t c = column; c < column + piece.columns; c += width)
          if (isFull && (isSplit || targets.empty()))
            inBlockOfItsOwn(sums, r, step, [&] { emit(r, c); });
          else
            emit(r, c);
    }
}

void FunctionLowering::emitPiece(ArrayRef<Operation *> group, int64_t row, int64_t column,
                                 StoreTarget::Piece piece, ArrayRef<std::unique_ptr<StoreTarget>> targets,
                                 MutableArrayRef<RegisterSums> sums) {
  SmallVector<SmallVector<SmallVector<Value>>> stored(targets.size(),
                                                      SmallVector<SmallVector<Value>>(piece.rows));
  // What all rows of a column have in common, such as whether it lies inside, is not kept for long.
  for (int64_t c = column; c < column + piece.columns; ++c)
    for (int64_t r = 0; r < piece.rows; ++r) {
      for (RegisterSums &sum : sums)
        if (sum.follows()) sum.find(row + r, c);
      size_t nextTarget = 0, nextSum = 0;
      for (Operation *op : group)
        if (isStore(op))
          stored[nextTarget++][r].push_back(evaluate(op->getOperand(0), row + r, c));
        else if (RegisterSums &sum = sums[nextSum++]; !sum.follows())
          sum.add(row + r, c, evaluate(sum.operand(), row + r, c));
    }
  for (auto [target, values] : llvm::zip(targets, stored))
    target->store(row, column, values);
}

bool FunctionLowering::hasManySteps(ArrayRef<Operation *> group) const {
  int64_t steps = 0;
  for (Operation *op : neededBy(group))
    steps += isa<math::TanhOp>(op) ? kTanhSteps : 1;
  return steps > kManySteps;
}

/// Loads and element-wise ops that sinks need, each behind those that it needs itself.
SmallVector<Operation *> FunctionLowering::neededBy(ArrayRef<Operation *> group) const {
  SmallVector<Operation *> needed;
  llvm::SmallPtrSet<Operation *, 16> visited;
  auto visit = [&](auto &self, Value value) -> void {
    Operation *op = value.getDefiningOp();
    if (!op || !isTile(value) || !(isElementwise(op) || isLoad(op)) || !visited.insert(op).second) return;
    for (Value operand : op->getOperands())
      self(self, operand);
    needed.push_back(op);
  };
  for (Operation *op : group)
    for (Value operand : op->getOperands())
      visit(visit, operand);
  return needed;
}

SmallVector<Operation *> FunctionLowering::loadsOf(ArrayRef<Operation *> group) const {
  SmallVector<Operation *> loads = neededBy(group);
  llvm::erase_if(loads, [](Operation *op) { return !isLoad(op); });
  return loads;
}

/// Loads of some tiles that the group needs whose elements are not known yet.
SmallVector<Operation *> FunctionLowering::unknownLoads(ArrayRef<Operation *> group,
                                                        llvm::function_ref<bool(Value)> isWanted) {
  SmallVector<Operation *> loads = loadsOf(group);
  llvm::erase_if(loads, [&](Operation *load) {
    Value tile = load->getResult(0);
    return !isWanted(tile) || registersOf(tile)[0];
  });
  return loads;
}

/// Behind a condition that always holds and ptxas cannot tell: it works within a basic block on as many rows
/// at once as it likes, and would run out of registers. What `body` adds to rows [row, row + rows) of the
/// sums goes on behind it; nothing else that it evaluates does.
void FunctionLowering::inBlockOfItsOwn(MutableArrayRef<RegisterSums> sums, int64_t row, int64_t rows,
                                       llvm::function_ref<void()> body) {
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
  auto known = registers;
  auto block = e.b.create<scf::IfOp>(TypeRange(ValueRange(before)), always, /*addThenBlock=*/true,
                                     /*addElseBlock=*/true);
  e.inside(block.elseBlock(), [&] { e.b.create<scf::YieldOp>(before); });
  e.inside(block.thenBlock(), [&] {
    body();
    e.b.create<scf::YieldOp>(current());
  });
  registers = std::move(known);
  ValueRange after = block.getResults();
  for (RegisterSums &sum : sums) {
    llvm::copy(after.take_front(rows), sum.values().begin() + row);
    after = after.drop_front(rows);
  }
}

/// Loads of columns, and of rows that have at most `mostColumns` registers, that the group needs: all before
/// the first element, so that their latency is paid once.
void FunctionLowering::evaluateNarrowLoads(ArrayRef<Operation *> group, int64_t mostColumns) {
  for (Operation *load : loadsOf(group)) {
    Value tile = load->getResult(0);
    if (isNarrow(tile) && layouts_.of(tile).columns->registers() <= mostColumns) evaluateAll(tile);
  }
}

} // namespace tilewright::nvptx
