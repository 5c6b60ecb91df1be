#include "compiler/nvptx/threads/kernel_memory.h"

#include "compiler/nvptx/tile_gpu/layouts.h"
#include "llvm/ADT/SetVector.h"

namespace tilewright::nvptx {

using namespace mlir;

bool isLoad(Operation *op) { return isa<tile::LoadOp, tile::LoadRowsOp, tile::LoadElementsOp>(op); }
bool isStore(Operation *op) { return isa<tile::StoreOp, tile::StoreRowsOp, tile::ReduceAddOp>(op); }
bool isElementwise(Operation *op) {
  if (isa<tile::SplatOp, tile::IotaOp, tile::BroadcastOp, tile::MulHighOp>(op)) return true;
  StringRef dialect = op->getDialect()->getNamespace();
  return (dialect == "arith" || dialect == "math") && op->getNumResults() == 1 && isTile(op->getResult(0));
}

bool isWritten(BlockArgument parameter) {
  auto kernel = cast<func::FuncOp>(parameter.getOwner()->getParentOp());
  return kernel.getArgAttr(parameter.getArgNumber(), tile::kWrittenAttr) != nullptr;
}

/// Whether a store has the place of a load, in whichever matrix.
static bool isAtPlaceOf(tile::StoreOp store, Operation *load) {
  return store->getBlock() == load->getBlock() && load->isBeforeInBlock(store) &&
         llvm::to_vector(load->getOperands().drop_front(1)) ==
             llvm::to_vector(store->getOperands().drop_front(2)) &&
         tile::tileType(load->getResult(0)).getShape() == tile::tileType(store->getOperand(0)).getShape();
}

/// Stores that a value flows to, element by element; false if it flows elsewhere.
static bool findStores(Operation *op, llvm::SmallSetVector<Operation *, 2> &stores) {
  llvm::SmallPtrSet<Operation *, 16> seen;
  SmallVector<Operation *> open{op};
  while (!open.empty())
    for (Operation *user : open.pop_back_val()->getUsers()) {
      if (!seen.insert(user).second) continue;
      if (isa<tile::StoreOp>(user))
        stores.insert(user);
      else if (isElementwise(user))
        open.push_back(user);
      else
        return false;
    }
  return true;
}

/// Whether sinks will be made together, each element of all before the next of any: nothing lies between
/// them, and they wait for no reduction.
static bool areSideBySide(ArrayRef<Operation *> stores) {
  if (stores.size() == 1) return true;
  size_t left = stores.size();
  for (Operation &op : *stores.front()->getBlock()) {
    if (isa<tile::ReduceOp>(op)) return false;
    if (llvm::is_contained(stores, &op))
      --left;
    else if (left > 0 && left < stores.size() && !isElementwise(&op))
      return false;
  }
  return true;
}

bool isReplaced(Operation *load) {
  llvm::SmallSetVector<Operation *, 2> stores;
  if (!isa<tile::LoadOp>(load) || !findStores(load, stores)) return false;
  SmallVector<Operation *> own;
  load->getParentOfType<func::FuncOp>().walk([&](Operation *op) {
    if (isStore(op) && rootOf(viewOf(op)) == rootOf(viewOf(load))) own.push_back(op);
  });
  if (own.size() != 1 || !stores.contains(own.front()) || viewOf(own.front()) != viewOf(load)) return false;
  return llvm::all_of(stores, [&](Operation *op) { return isAtPlaceOf(cast<tile::StoreOp>(op), load); }) &&
         areSideBySide(stores.getArrayRef());
}

KernelMemory::KernelMemory(func::FuncOp kernel) {
  kernel.walk([&](Operation *op) {
    hasProducts_ |= isa<tile::ContractOp, tile::DotOp>(op);
    if (!isLoad(op) && !isStore(op)) return;
    Value root = rootOf(viewOf(op));
    if (isStore(op))
      written.insert(root.getAsOpaquePointer());
    else if (cast<tile::ViewType>(root.getType()).getRank() == 2)
      readMatrices.insert(root.getAsOpaquePointer());
  });
}

bool KernelMemory::readsWritten(Operation *load) const {
  return isWritten(rootOf(viewOf(load))) && !(hasProducts_ && isReplaced(load));
}

bool KernelMemory::isReadBeside(Value root) const {
  return hasProducts_ && readMatrices.contains(root.getAsOpaquePointer());
}

} // namespace tilewright::nvptx
