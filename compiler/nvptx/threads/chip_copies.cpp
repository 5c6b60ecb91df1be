#include "compiler/nvptx/threads/chip_copies.h"

#include "compiler/nvptx/ptx/async_copy.h"
#include "compiler/nvptx/threads/memory_access.h"

namespace tilewright::nvptx {

using namespace mlir;

ChipCopies::ChipCopies(Lowering &lowering) : lowering(lowering) {
  lowering.function().walk([&](tile::StoreOp store) {
    Value place = store.getView(), value = store.getValue();
    Operation *load = value.getDefiningOp();
    bool isCopy = place.getDefiningOp<tile::OnChipOp>() &&
                  isa_and_nonnull<tile::LoadOp, tile::LoadRowsOp>(load) && value.hasOneUse() &&
                  load->getBlock() == store->getBlock() && store.getInterior() && tile::isInterior(load) &&
                  canCopy(lowering.layouts(), value);
    if (!isCopy) return;
    copies.insert(load);
    copies.insert(store);
    copied.insert(place.getAsOpaquePointer());
  });
}

void ChipCopies::start(Operation *load) {
  Operation *store = *load->user_begin();
  lowering.order().before(load);
  lowering.order().before(store);
  MemoryAccess(lowering, load).copyTo(MemoryAccess(lowering, store));
}

void ChipCopies::awaitBefore(Operation *op) {
  WalkResult looks = op->walk([&](Operation *inner) {
    bool isLook = isLoad(inner) && copied.contains(viewOf(inner).getAsOpaquePointer());
    return isLook ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (!looks.wasInterrupted()) return;
  commitCopies(lowering.emitter());
  waitForCopies(lowering.emitter(), 0);
  lowering.order().barrier();
}

} // namespace tilewright::nvptx
