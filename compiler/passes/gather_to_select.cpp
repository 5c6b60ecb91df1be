#include "compiler/passes/memory_access.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/tile_builder.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tilewright {
#define GEN_PASS_DEF_GATHERTOSELECT
#include "compiler/passes/passes.h.inc"

namespace {

bool isTileValue(Value v) { return isa<RankedTensorType>(v.getType()); }

bool isConstant(Value v) {
  if (auto splat = v.getDefiningOp<tile::SplatOp>()) return matchPattern(splat.getScalar(), m_Constant());
  return matchPattern(v, m_Constant());
}

/// A tile that repeats one number a row.
tile::BroadcastOp columnBroadcast(Value v) {
  auto broadcast = v.getDefiningOp<tile::BroadcastOp>();
  return broadcast && tile::columnsOf(broadcast.getValue().getType()) == 1 ? broadcast : nullptr;
}

/// Whether an element of x hangs on a number of its row, by way of element-wise operations.
bool dependsOnRow(Value x) {
  llvm::DenseSet<Operation *> seen;
  SmallVector<Value> open{x};
  while (!open.empty()) {
    const Value next = open.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!op || !seen.insert(op).second) continue;
    if (isa<tile::LogSoftmaxOp>(op)) return true;
    if (auto column = columnBroadcast(next)) {
      if (!isConstant(column.getValue())) return true;
    } else if (isElementwise(op)) {
      llvm::copy_if(op->getOperands(), std::back_inserter(open), isTileValue);
    }
  }
  return false;
}

/// What makes the elements of a row, down to its loads, when that is element-wise.
struct RowTree {
  llvm::SetVector<Operation *> ops;
  bool elementwise = true;

  explicit RowTree(Value x) { add(x); }

  void add(Value x) {
    Operation *op = x.getDefiningOp();
    if (columnBroadcast(x) || !isTileValue(x)) return;
    elementwise &= op && (isElementwise(op) || isa<tile::LoadOp, tile::LoadRowsOp>(op));
    if (!elementwise || !ops.insert(op)) return;
    if (isElementwise(op)) llvm::for_each(op->getOperands(), [&](Value v) { add(v); });
  }
};

/// Builds gather(x, i) for one gather.
class Picker {
public:
  explicit Picker(tile::GatherOp gather) : gather_(gather), index_(gather.getIndex()), b_(gather) {}

  Value run() {
    Value x = gather_.getValue();
    Picked picked = pick(x);
    if (picked.zeroOutside) return picked.value;
    Value zero = b_.full(picked.value, tile::elementOf(picked.value.getType()), 0);
    return b_.create<arith::SelectOp>(b_.inside(index_, x), picked.value, zero);
  }

private:
  struct Picked {
    Value value;
    bool zeroOutside; ///< also where the index lies outside the row
  };

  Picked pick(Value x) {
    auto known = picked_.find(x);
    return known != picked_.end() ? known->second : picked_[x] = make(x);
  }

  Picked make(Value x) {
    if (auto softmax = x.getDefiningOp<tile::LogSoftmaxOp>()) return pickLogSoftmax(softmax);
    if (auto column = columnBroadcast(x)) return {b_.spread(column.getValue(), index_), false};
    if (readsElement(x)) {
      if (auto load = x.getDefiningOp<tile::LoadOp>()) return loadElements(load);
      if (auto load = x.getDefiningOp<tile::LoadRowsOp>()) return loadElements(load);
      return pickOperands(x.getDefiningOp());
    }
    if (dependsOnRow(x)) return pickOperands(x.getDefiningOp());
    return {selectAndSum(x), true};
  }

  /// gather(log_softmax(x), i) = (gather(x, i) - m) - log Σ exp(x - m),  m = max x
  Picked pickLogSoftmax(tile::LogSoftmaxOp op) {
    auto [m, s] = b_.maxAndSum(op.getValue());
    Value logSum = b_.create<math::LogOp>(s);
    Value shifted = b_.create<arith::SubFOp>(pick(op.getValue()).value, m);
    return {b_.create<arith::SubFOp>(shifted, logSum), false};
  }

  /// gather(f(x, y), i) = f(gather(x, i), gather(y, i))
  Picked pickOperands(Operation *op) {
    SmallVector<Value> operands;
    bool zeroOutside = isa<CastOpInterface>(op);
    for (Value operand : op->getOperands()) {
      if (!isTileValue(operand)) {
        operands.push_back(operand);
        continue;
      }
      Picked picked = pick(operand);
      operands.push_back(picked.value);
      zeroOutside &= picked.zeroOutside;
    }
    Type type = tile::tileType(index_).clone(tile::elementOf(op->getResult(0).getType()));
    Operation *picked =
        b_.create(op->getLoc(), op->getName().getIdentifier(), operands, type, op->getAttrs());
    return {picked->getResult(0), zeroOutside};
  }

  /// gather(x, i) = Σ_c select(c = i, x, 0)
  Value selectAndSum(Value x) {
    Type element = tile::elementOf(x.getType());
    x = widened(x);
    Value zero = b_.full(x, tile::elementOf(x.getType()), 0);
    Value picked = b_.create<arith::SelectOp>(b_.at(index_, x), x, zero);
    return narrowed(b_.reduce(tile::ReductionKind::sum, picked), element);
  }

  /// Sums are of f32, i32 or i64; other elements make a detour, which is exact for one element and zeros.
  Value widened(Value x) {
    Type element = tile::elementOf(x.getType());
    if (element.isBF16() || element.isF16())
      return b_.create<arith::ExtFOp>(tile::tileType(x).clone(b_.getF32Type()), x);
    if (element.isInteger(1)) return b_.create<arith::ExtUIOp>(tile::tileType(x).clone(b_.getI32Type()), x);
    return x;
  }

  Value narrowed(Value x, Type element) {
    auto type = tile::tileType(x).clone(element);
    if (element.isBF16() || element.isF16()) return b_.create<arith::TruncFOp>(type, x);
    if (element.isInteger(1)) return b_.create<arith::TruncIOp>(type, x);
    return x;
  }

  /// gather(load v[r, j], i) = load_elements v[r, j + i]
  Picked loadElements(tile::LoadOp load) {
    return loadElements(load, load.getOffsets()[0], load.getOffsets()[1]);
  }

  Picked loadElements(tile::LoadRowsOp load) {
    return loadElements(load, b_.create<tile::ExtractOp>(load.getRows()), load.getColumn());
  }

  template <class Load> Picked loadElements(Load load, Value row, Value first) {
    bool fromStart = isZero(first);
    Value column = index_;
    if (!fromStart) column = b_.create<arith::AddIOp>(index_, b_.spread(b_.splat(first), index_));
    auto type = tile::tileType(index_).clone(tile::elementOf(load.getType()));
    Value elements = b_.create<tile::LoadElementsOp>(type, load.getView(), row, column);
    return {elements, fromStart && coversView(load)};
  }

  /// Whether a tile that starts at column 0 is as wide as its view.
  template <class Load> bool coversView(Load load) {
    Value size = load.getSize();
    auto width = size ? size.getDefiningOp<tile::DimOp>() : nullptr;
    return width && width.getAxis() == 1 && width.getView() == load.getView();
  }

  /// Whether x is element-wise work on loads, so that its element can be made from elements in memory, and
  /// that is worth it: the row is long, or nothing but gathers use it, so that its rest need not be read.
  bool readsElement(Value x) {
    if (Operation *op = x.getDefiningOp(); op && fromElements_.contains(op)) return true;
    RowTree tree(x);
    if (!tree.elementwise || !llvm::all_of(tree.ops, [&](Operation *op) { return canPick(op, tree); }))
      return false;
    fromElements_.insert(tree.ops.begin(), tree.ops.end());
    return true;
  }

  bool canPick(Operation *op, const RowTree &tree) {
    if (auto load = dyn_cast<tile::LoadOp>(op); load && !canLoadHere(load)) return false;
    if (auto load = dyn_cast<tile::LoadRowsOp>(op); load && !canLoadHere(load)) return false;
    if (isLongTile(op->getResult(0).getType())) return true;
    return llvm::all_of(op->getUses(),
                        [&](OpOperand &use) { return tree.ops.contains(use.getOwner()) || isGathered(use); });
  }

  bool isGathered(OpOperand &use) {
    auto gather = dyn_cast<tile::GatherOp>(use.getOwner());
    return gather && gather.getValue() == use.get();
  }

  bool canLoadHere(tile::LoadOp load) {
    return load.getView().getType().getRank() == 2 && readsTheSameHere(load);
  }

  bool canLoadHere(tile::LoadRowsOp load) {
    return load.getColumn() && tile::rowsOf(load.getType()) == 1 && readsTheSameHere(load);
  }

  bool readsTheSameHere(Operation *load) {
    return load->getBlock() == gather_->getBlock() &&
           !writerBetween(load, std::next(load->getIterator()), gather_->getIterator());
  }

  tile::GatherOp gather_;
  Value index_;
  TileBuilder b_;
  llvm::DenseMap<Value, Picked> picked_;
  llvm::DenseSet<Operation *> fromElements_;
};

/// With what only it used, directly or not. A set, as an operation may be used twice by what is erased.
void eraseDead(Operation *dead) {
  llvm::SetVector<Operation *> open;
  open.insert(dead);
  while (!open.empty()) {
    Operation *op = open.pop_back_val();
    if (!isOpTriviallyDead(op)) continue;
    for (Value operand : op->getOperands())
      if (Operation *source = operand.getDefiningOp()) open.insert(source);
    op->erase();
  }
}

/// Σ_c scatter(v, i) = v where i is inside the row, else 0
void sumOfScatter(tile::ReduceOp sum) {
  auto scatter = sum.getValue().getDefiningOp<tile::ScatterOp>();
  if (!scatter || sum.getKind() != tile::ReductionKind::sum || sum.getAxis() != 1) return;
  TileBuilder b(sum);
  Value v = scatter.getValue(), zero = b.full(v, tile::elementOf(v.getType()), 0);
  Value inside = b.inside(scatter.getIndex(), scatter);
  sum.replaceAllUsesWith(b.create<arith::SelectOp>(inside, v, zero).getResult());
  eraseDead(sum);
}

/// scatter(v, i) = select(c = i, v, 0)
void scatterToSelect(tile::ScatterOp scatter) {
  TileBuilder b(scatter);
  Value zero = b.full(scatter, tile::elementOf(scatter.getType()), 0);
  Value v = b.spread(scatter.getValue(), scatter);
  scatter.replaceAllUsesWith(
      b.create<arith::SelectOp>(b.at(scatter.getIndex(), scatter), v, zero).getResult());
  scatter.erase();
}

WalkResult gatherToSelect(tile::GatherOp gather) {
  if (failed(checkWidths(gather))) return WalkResult::interrupt();
  gather.replaceAllUsesWith(Picker(gather).run());
  // What only this gather wanted must not look like another use of a row to the next gather.
  eraseDead(gather);
  return WalkResult::advance();
}

struct GatherToSelect : impl::GatherToSelectBase<GatherToSelect> {
  void runOnOperation() override {
    getOperation().walk(sumOfScatter);
    if (getOperation().walk(gatherToSelect).wasInterrupted()) return signalPassFailure();
    getOperation().walk(scatterToSelect);
  }
};

} // namespace
} // namespace tilewright
