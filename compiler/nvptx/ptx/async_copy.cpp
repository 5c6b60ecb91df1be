#include "compiler/nvptx/ptx/async_copy.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace tilewright::nvptx {

using namespace mlir;

void copyAsync(Emitter &e, Num shared, Num global, int64_t bytes, Value liveBytes) {
  const auto cache = bytes == 16 ? NVVM::LoadCacheModifierKind::CG : NVVM::LoadCacheModifierKind::CA;
  e.b.create<NVVM::CpAsyncOp>(e.sharedPointer(shared), e.globalPointer(global), bytes, cache, liveBytes);
}

void commitCopies(Emitter &e) { e.b.create<NVVM::CpAsyncCommitGroupOp>(); }

void waitForCopies(Emitter &e, int64_t stillUnderWay) { e.b.create<NVVM::CpAsyncWaitGroupOp>(stillUnderWay); }

} // namespace tilewright::nvptx
