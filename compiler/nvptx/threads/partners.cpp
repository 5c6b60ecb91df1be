#include "compiler/nvptx/threads/partners.h"

#include "compiler/nvptx/ptx/mbarrier.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace tilewright::nvptx {

using namespace mlir;

Partners::Partners(Lowering &lowering) : lowering(lowering) {
  func::FuncOp kernel = lowering.function();
  if (auto partners = kernel->getAttrOfType<IntegerAttr>(tile::kPartnersAttr)) count = partners.getInt();
  kernel.walk([&](tile::ExchangeOp op) {
    if (!op.getValues().empty()) counted.push_back(op);
  });
  bool areTogether = llvm::all_of(counted, [&](tile::ExchangeOp op) {
    return op->getBlock() == counted[0]->getBlock() && !op->getParentOfType<scf::ForOp>();
  });
  if (!areTogether) counted.clear();
}

void Partners::place() {
  constexpr int64_t kBarrierBytes = 8;
  int64_t next = lowering.chip().take(kBarrierBytes * counted.size());
  for (tile::ExchangeOp op : counted) {
    barriers[op] = next;
    next += kBarrierBytes;
  }
}

int64_t Partners::bytesOfOne(tile::ExchangeOp op) const {
  int64_t bytes = 0;
  for (Value value : op.getValues())
    bytes += bytesOf(tile::elementOf(value.getType()));
  return bytes;
}

Num Partners::barrierOf(tile::ExchangeOp op) { return lowering.chip().at(barriers.lookup(op)); }

void Partners::enter(Block *block) {
  if (counted.empty() || counted[0]->getBlock() != block) return;
  Emitter &e = lowering.emitter();
  auto first = e.b.create<scf::IfOp>(e.thread() == 0, /*withElseRegion=*/false);
  e.inside(first.thenBlock(), [&] {
    for (tile::ExchangeOp op : counted)
      initBarrier(e, barrierOf(op), 1);
    fenceBarrierInit(e);
    for (tile::ExchangeOp op : counted)
      arriveExpecting(e, barrierOf(op), count * bytesOfOne(op));
  });
  clusterArrive(e);
  isAwaited = true;
}

void Partners::exchange(tile::ExchangeOp op, ArrayRef<Value> values, ArrayRef<Num> places) {
  Emitter &e = lowering.emitter();
  if (isAwaited) clusterWait(e);
  isAwaited = false;
  const bool isCounted = barriers.contains(op);
  // Without counting, all CTAs must have started, and nobody read the places any more.
  if (!isCounted) clusterBarrier(e);
  if (values.empty()) return;
  // Each of the first threads tells one partner.
  Value tells = e.thread() < count;
  Num told = minimum(e.thread(), e.i32(count - 1));
  Num number = e.num(e.b.create<NVVM::BlockIdYOp>(e.b.getI32Type()));
  for (auto [value, place] : llvm::zip(values, places)) {
    Num there = place + number * bytesOf(value.getType());
    if (isCounted)
      e.tellIf(tells, told, there, value, barrierOf(op));
    else
      e.storeClusterIf(tells, told, there, value);
  }
  isCounted ? waitForPhase(e, barrierOf(op), e.i32(0)) : clusterBarrier(e);
}

} // namespace tilewright::nvptx
