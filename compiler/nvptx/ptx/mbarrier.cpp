#include "compiler/nvptx/ptx/mbarrier.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace tilewright::nvptx {

using namespace mlir;

constexpr int64_t kMostNanosecondsAsleep = 10'000'000; ///< before a thread that waits looks again

void initBarrier(Emitter &e, Num address, int64_t arrivals) {
  e.b.create<NVVM::MBarrierInitSharedOp>(e.sharedPointer(address), e.i32(arrivals).value, Value());
}

void fenceBarrierInit(Emitter &e) { e.b.create<NVVM::FenceMbarrierInitOp>(); }

void arriveExpecting(Emitter &e, Num address, int64_t bytes) {
  e.b.create<NVVM::MBarrierArriveExpectTxSharedOp>(e.sharedPointer(address), e.i32(bytes).value, Value());
}

// Without a scope: `.release.cluster` becomes a fence of the whole GPU's memory, which costs a third of a
// product's speed.
void arrive(Emitter &e, Num address) {
  e.b.create<NVVM::MBarrierArriveSharedOp>(e.b.getI64Type(), e.sharedPointer(address));
}

void arriveAt(Emitter &e, Num address, Num cta) {
  e.ptx({},
        "{ .reg .b32 there;\n\tmapa.shared::cluster.u32 there, $0, $1;\n\t"
        "mbarrier.arrive.shared::cluster.b64 _, [there]; }",
        "r,r,~{memory}", {address.value, cta.value}, true);
}

void clusterArrive(Emitter &e) { e.b.create<NVVM::ClusterArriveRelaxedOp>(UnitAttr()); }

void clusterWait(Emitter &e) { e.b.create<NVVM::ClusterWaitOp>(UnitAttr()); }

void clusterBarrier(Emitter &e) {
  e.b.create<NVVM::ClusterArriveOp>(UnitAttr());
  clusterWait(e);
}

void waitForPhase(Emitter &e, Num address, Num parity) {
  e.b.create<NVVM::MBarrierTryWaitParitySharedOp>(e.sharedPointer(address), parity.value,
                                                  e.i32(kMostNanosecondsAsleep).value);
}

void fenceAsyncProxy(Emitter &e) {
  MLIRContext *context = e.b.getContext();
  e.b.create<NVVM::FenceProxyOp>(NVVM::ProxyKindAttr::get(context, NVVM::ProxyKind::async_shared),
                                 NVVM::SharedSpaceAttr::get(context, NVVM::SharedSpace::shared_cta));
}

Variable::Variable(Emitter &e, int64_t initial) : e(&e) {
  auto pointer = LLVM::LLVMPointerType::get(e.b.getContext());
  Operation *parent = e.b.getInsertionBlock()->getParentOp();
  auto function =
      isa<func::FuncOp>(parent) ? cast<func::FuncOp>(parent) : parent->getParentOfType<func::FuncOp>();
  e.inside(&function.getBody().front(), [&] { // LLVM looks for such memory at a function's entry only
    slot = e.b.create<LLVM::AllocaOp>(pointer, e.b.getI32Type(), e.i32(1).value);
  });
  set(e.i32(initial));
}
Num Variable::get() const { return e->num(e->b.create<LLVM::LoadOp>(e->b.getI32Type(), slot)); }
void Variable::set(Num number) { e->b.create<LLVM::StoreOp>(number.value, slot); }

} // namespace tilewright::nvptx
