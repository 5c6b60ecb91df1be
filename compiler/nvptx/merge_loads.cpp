#include "compiler/nvptx/passes.h"
#include "compiler/nvptx/threads/function_lowering.h"

namespace tilewright::nvptx {

#define GEN_PASS_DEF_MERGELOADS
#include "compiler/nvptx/passes.h.inc"

using namespace mlir;

namespace {

struct MergeLoadsPass : impl::MergeLoadsBase<MergeLoadsPass> {
  void runOnOperation() override {
    written = writtenRootsOf(getOperation());
    getOperation().walk([&](Block *block) { mergeIn(*block); });
  }

private:
  void mergeIn(Block &block) {
    SmallVector<Operation *> known;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (!isLoad(&op) || written.contains(rootOf(viewOf(&op)).getAsOpaquePointer())) continue;
      auto same = llvm::find_if(known, [&](Operation *other) {
        return OperationEquivalence::isEquivalentTo(other, &op, OperationEquivalence::IgnoreLocations);
      });
      if (same == known.end()) {
        known.push_back(&op);
        continue;
      }
      op.replaceAllUsesWith(*same);
      op.erase();
    }
  }

  llvm::SmallPtrSet<void *, 4> written; ///< roots of views
};

} // namespace

} // namespace tilewright::nvptx
