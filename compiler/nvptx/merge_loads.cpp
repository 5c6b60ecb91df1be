#include "compiler/nvptx/passes.h"
#include "compiler/nvptx/threads/kernel_memory.h"

namespace tilewright::nvptx {

#define GEN_PASS_DEF_MERGELOADS
#include "compiler/nvptx/passes.h.inc"

using namespace mlir;

namespace {

struct MergeLoadsPass : impl::MergeLoadsBase<MergeLoadsPass> {
  void runOnOperation() override {
    const KernelMemory memory(getOperation());
    getOperation().walk([&](Block *block) { mergeIn(*block, memory); });
  }

private:
  static void mergeIn(Block &block, const KernelMemory &memory) {
    SmallVector<Operation *> known;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (!isLoad(&op) || memory.isWritten(rootOf(viewOf(&op)))) continue;
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
};

} // namespace

} // namespace tilewright::nvptx
