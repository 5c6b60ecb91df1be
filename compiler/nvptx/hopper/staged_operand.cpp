// Copies by the tensor memory accelerator to 128-byte swizzled shared memory.

#include "compiler/nvptx/hopper/staged_operand.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::nvptx {

using namespace mlir;

namespace {

constexpr int64_t kPanelBytes = 64 * kLineBytes;

} // namespace

void StagedOperand::copy(Emitter &e, Num stage, Num k, Num barrier, Num policy) const {
  const bool isShared = shares > 1;
  const int64_t boxes = depthIsMinor ? 1 : positions / 64 / shares,
                boxPositions = depthIsMinor ? boxRows() : 64;
  const Value to = isShared ? e.number(e.b.getIntegerType(16), (1 << shares) - 1).value : Value();
  Num skipped = isShared ? share * (boxes * boxPositions) : e.i32(0); // positions of other CTAs' shares
  for (int64_t box = 0; box < boxes; ++box) {
    Num first = skipped + box * boxPositions, along = e.narrow(offset) + first, deep = e.narrow(k);
    Num column = depthIsMinor ? deep : along, row = depthIsMinor ? along : deep;
    e.b.create<NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp>(
        e.sharedPointer(stage + first * kLineBytes), map, ValueRange{column.value, row.value},
        e.sharedPointer(barrier), /*im2colOffsets=*/ValueRange(), to, policy.value, /*predicate=*/Value());
  }
}

void StagedOperand::clearDepth(Emitter &e, Num stage, Num live) const {
  depthIsMinor ? clearLineEnds(e, stage, live) : clearLines(e, stage, live);
}

/// A thread has whole lines, whose elements it clears one by one: this is done once a program at most.
void StagedOperand::clearLineEnds(Emitter &e, Num stage, Num live) const {
  const int64_t bytes = kLineBytes / depth; // of an element
  const Value zero = e.number(e.b.getIntegerType(8 * bytes), 0).value;
  auto loop = [&](Num begin, int64_t end, int64_t step, llvm::function_ref<void(Num)> body) {
    auto op = e.b.create<scf::ForOp>(begin.value, e.i32(end).value, e.i32(step).value);
    e.inside(op.getBody(), [&] { body(e.num(op.getInductionVar())); });
  };
  loop(e.thread(), positions, e.teamThreads, [&](Num line) {
    loop(live, depth, 1, [&](Num element) {
      Num at = element * bytes, chunk = (at >> 4) ^ (line & 7);
      e.storeShared(stage + line * kLineBytes + chunk * 16 + (at & 15), 0, {zero});
    });
  });
}

void StagedOperand::clearLines(Emitter &e, Num stage, Num live) const {
  Num begin = live * kLineBytes + e.thread() * 16;
  const Value zero = e.i32(0).value;
  for (int64_t panel = 0; panel < positions / 64; ++panel) {
    auto loop = e.b.create<scf::ForOp>(e.toIndex(e.wide(begin)), e.toIndex(e.i64(kPanelBytes)),
                                       e.toIndex(e.i64(e.teamThreads * 16)));
    e.inside(loop.getBody(), [&] {
      Num at = e.narrow(e.fromIndex(loop.getInductionVar()));
      e.storeShared(stage + panel * kPanelBytes + at, 0, {zero, zero, zero, zero});
    });
  }
}

} // namespace tilewright::nvptx
