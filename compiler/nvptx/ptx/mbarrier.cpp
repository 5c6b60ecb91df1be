#include "compiler/nvptx/ptx/mbarrier.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace tilewright::nvptx {

using namespace mlir;

void initBarrier(Emitter &e, Num address, int64_t arrivals) {
  e.ptx({}, "mbarrier.init.shared::cta.b64 [$0], " + std::to_string(arrivals) + ";", "r,~{memory}",
        {address.value}, true);
}

void fenceBarrierInit(Emitter &e) {
  e.ptx({}, "fence.mbarrier_init.release.cluster;", "~{memory}", {}, true);
}

void arriveExpecting(Emitter &e, Num address, int64_t bytes) {
  e.ptx({}, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], " + std::to_string(bytes) + ";",
        "r,~{memory}", {address.value}, true);
}

// Without a scope: `.release.cluster` becomes a fence of the whole GPU's memory, which costs a third of a
// product's speed.
void arrive(Emitter &e, Num address) {
  e.ptx({}, "mbarrier.arrive.shared::cta.b64 _, [$0];", "r,~{memory}", {address.value}, true);
}

void arriveAt(Emitter &e, Num address, Num cta) {
  e.ptx({},
        "{ .reg .b32 there;\n\tmapa.shared::cluster.u32 there, $0, $1;\n\t"
        "mbarrier.arrive.shared::cluster.b64 _, [there]; }",
        "r,r,~{memory}", {address.value, cta.value}, true);
}

void clusterArrive(Emitter &e) { e.ptx({}, "barrier.cluster.arrive.relaxed;", "~{memory}", {}, true); }

void clusterWait(Emitter &e) { e.ptx({}, "barrier.cluster.wait;", "~{memory}", {}, true); }

void clusterBarrier(Emitter &e) {
  e.ptx({}, "barrier.cluster.arrive;\n\tbarrier.cluster.wait;", "~{memory}", {}, true);
}

void waitForPhase(Emitter &e, Num address, Num parity) {
  e.ptx({},
        "{ .reg .pred over;\n\t"
        "again: mbarrier.try_wait.parity.shared::cta.b64 over, [$0], $1;\n\t"
        "@!over bra again; }",
        "r,r,~{memory}", {address.value, parity.value}, true);
}

void fenceAsyncProxy(Emitter &e) { e.ptx({}, "fence.proxy.async.shared::cta;", "~{memory}", {}, true); }

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
