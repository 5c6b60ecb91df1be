// What is copied on chip while the threads do something else.

#include "compiler/nvptx/threads/function_lowering.h"
#include "compiler/nvptx/threads/memory_access.h"

namespace tilewright::nvptx {

using namespace mlir;

/// Loads of vectors that are stored on chip and nothing else.
void FunctionLowering::findCopies() {
  kernel.walk([&](tile::StoreOp store) {
    Value place = store.getView(), value = store.getValue();
    Operation *load = value.getDefiningOp();
    bool isCopy = place.getDefiningOp<tile::OnChipOp>() &&
                  isa_and_nonnull<tile::LoadOp, tile::LoadRowsOp>(load) && value.hasOneUse() &&
                  load->getBlock() == store->getBlock() && store.getInterior() && load->hasAttr("interior") &&
                  canCopy(layouts_, value);
    if (!isCopy) return;
    copies.insert(load);
    copies.insert(store);
    copied.insert(place.getAsOpaquePointer());
  });
}

/// Nobody waits for copies before they are looked at.
void FunctionLowering::lowerCopy(Operation *load) {
  flush();
  Operation *store = *load->user_begin();
  orderAccess(load);
  orderAccess(store);
  MemoryAccess(*this, load).copyTo(MemoryAccess(*this, store));
}

/// Before a loop, or a load by itself, that looks at what was copied.
void FunctionLowering::awaitCopies(Operation *op) {
  WalkResult looks = op->walk([&](Operation *inner) {
    bool isLook = isLoad(inner) && copied.contains(viewOf(inner).getAsOpaquePointer());
    return isLook ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (!looks.wasInterrupted()) return;
  e.ptx({}, "cp.async.wait_all;", "~{memory}", {}, true);
  barrier();
}

} // namespace tilewright::nvptx
