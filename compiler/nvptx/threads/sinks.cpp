#include "compiler/nvptx/threads/sinks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tilewright::nvptx {

using namespace mlir;

void Sinks::flush() {
  while (!pending.empty()) {
    const Group group = nextGroup();
    llvm::erase_if(pending, [&](Operation *op) { return llvm::is_contained(group, op); });
    SinkGroup emitted(lowering, role);
    for (Operation *op : group)
      emitted.add(op, turnOf(op, group));
    emitted.emit();
  }
}

bool Sinks::isDeferred(Operation *reduce) const {
  return llvm::any_of(loops, [&](const DeferredSums *sums) { return sums->contains(reduce); });
}

bool Sinks::dependsOnPending(Value value) const {
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
tile::ReduceOp Sinks::maximumBeside(Operation *op, ArrayRef<Operation *> group) const {
  tile::ReduceOp maximum = placedMaximum(op);
  const bool isBeside =
      maximum && llvm::is_contained(group, maximum) && !isDeferred(op) && !isDeferred(maximum);
  return isBeside ? maximum : tile::ReduceOp();
}

/// Whether a sink has to wait for a reduction.
bool Sinks::waits(Operation *op, ArrayRef<Operation *> group) const {
  auto isWaiting = [&](Value v) { return isTile(v) && dependsOnPending(v); };
  if (maximumBeside(op, group))
    return isWaiting(op->getOperand(0).getDefiningOp<arith::SelectOp>().getTrueValue());
  return llvm::any_of(op->getOperands(), isWaiting);
}

/// The first sink and those behind it that go over the same registers, may move up to it, and wait for no
/// reduction.
Sinks::Group Sinks::nextGroup() const {
  TileLayout layout = lowering.layouts().of(pending.front()->getOperand(0));
  Group group;
  llvm::SmallPtrSet<void *, 4> passed;   // memory that sinks which stay behind write
  auto overwrites = [&](Operation *op) { // at other places than the element that is made beside it
    return isStore(op) && llvm::any_of(group, [&](Operation *other) {
             return isStore(other) && tile::touchOtherPlaces(op, other);
           });
  };
  for (Operation *op : pending) {
    void *root = isStore(op) ? lowering.view(viewOf(op)).root.getAsOpaquePointer() : nullptr;
    if (lowering.layouts().of(op->getOperand(0)) == layout && !waits(op, group) && !overwrites(op) &&
        !(root && passed.contains(root)))
      group.push_back(op);
    else if (root)
      passed.insert(root);
  }
  return group;
}

SinkGroup::Turn Sinks::turnOf(Operation *op, ArrayRef<Operation *> group) const {
  if (isDeferred(op)) return SinkGroup::Turn::deferred;
  return maximumBeside(op, group) ? SinkGroup::Turn::place : SinkGroup::Turn::first;
}

} // namespace tilewright::nvptx
