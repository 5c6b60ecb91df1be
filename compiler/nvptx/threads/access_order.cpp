#include "compiler/nvptx/threads/access_order.h"

#include "compiler/nvptx/threads/kernel_memory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tilewright::nvptx {

using namespace mlir;

/// Whether `load` picks elements of a row that may be overwritten in place, by way of another parameter.
static bool mayBeOverwritten(Operation *load, Value root) {
  Value picked = rootOf(viewOf(load));
  return isa<tile::LoadElementsOp>(load) && picked != root && picked.getType() == root.getType();
}

void AccessOrder::barrier() {
  e.barrier();
  clear();
}

void AccessOrder::before(Operation *access) {
  if (conflicts(access)) barrier();
  accesses.push_back(access);
}

bool AccessOrder::conflicts(Operation *access) const {
  Value root = rootOf(viewOf(access));
  return llvm::any_of(accesses, [&](Operation *earlier) {
    if (isStore(access) && mayBeOverwritten(earlier, root)) return true;
    return rootOf(viewOf(earlier)) == root && (isStore(earlier) || isStore(access)) &&
           !touchSameElements(earlier, access);
  });
}

bool AccessOrder::touchSameElements(Operation *a, Operation *b) const {
  TileLayout layout = layouts.of(tileOf(a));
  if (!(layout == layouts.of(tileOf(b))) || layout.threadMask() != layouts.threads() - 1) return false;
  auto places = [](Operation *op) {
    return llvm::to_vector(op->getOperands().drop_front(isLoad(op) ? 0 : 1));
  };
  auto isIndirect = [](Operation *op) { return isa<tile::LoadRowsOp, tile::StoreRowsOp>(op); };
  return isIndirect(a) == isIndirect(b) && places(a) == places(b);
}

/// Where a block begins along its view's last axis; null of elements, which lie anywhere.
static Value columnOf(Operation *access) {
  if (isa<tile::LoadElementsOp>(access)) return {};
  auto offsets =
      llvm::make_filter_range(access->getOperands(), [](Value v) { return v.getType().isIndex(); });
  return offsets.empty() ? Value() : *std::prev(offsets.end());
}

bool AccessOrder::iterationsConflict(scf::ForOp loop) const {
  llvm::DenseMap<Value, SmallVector<Operation *>> byRoot;
  loop.getBody()->walk([&](Operation *op) {
    if (!isLoad(op) && !isStore(op)) return;
    byRoot[rootOf(viewOf(op))].push_back(op);
  });
  // Of a sweep the blocks of two iterations have no column in common, where all begin at the same one.
  auto isOfSweep = [&](Operation *op, Operation *first) {
    return loop->hasAttr(tile::kSweepAttr) && columnOf(op) && columnOf(op) == columnOf(first);
  };
  auto step = getConstantIntValue(loop.getStep());
  // Blocks of successive iterations lie side by side.
  auto isDisjoint = [&](Operation *op) {
    if (isa<tile::LoadElementsOp>(op)) return false;
    Value tile = tileOf(op);
    for (Value offset : op->getOperands()) {
      if (!offset.getType().isIndex()) continue;
      if (auto sum = offset.getDefiningOp<arith::AddIOp>()) {
        auto isOutside = [&](Value v) { return loop.isDefinedOutsideOfLoop(v); };
        if (isOutside(sum.getLhs()))
          offset = sum.getRhs();
        else if (isOutside(sum.getRhs()))
          offset = sum.getLhs();
      }
      bool isColumn = offset.getType().isIndex() && tile::tileType(tile).getDimSize(1) > 1;
      if (offset == loop.getInductionVar() && isColumn && step && *step >= tile::tileType(tile).getDimSize(1))
        return true;
    }
    return false;
  };
  for (auto &[root, ops] : byRoot) {
    if (llvm::none_of(ops, isStore)) continue;
    if (llvm::all_of(ops, [&](Operation *op) { return isOfSweep(op, ops.front()); })) continue;
    for (Operation *op : ops)
      if (!isDisjoint(op) || (op != ops.front() && !touchSameElements(op, ops.front()))) return true;
  }
  return false;
}

} // namespace tilewright::nvptx
