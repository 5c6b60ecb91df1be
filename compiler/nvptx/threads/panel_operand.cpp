#include "compiler/nvptx/threads/panel_operand.h"

#include "compiler/nvptx/ptx/async_copy.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tilewright::nvptx {

using namespace mlir;

constexpr int64_t kMostUnrolled = 16; ///< copies a thread
constexpr int64_t kChunk = 4;         ///< fp32 numbers that one copy of 16 bytes has

PanelOperand::PanelOperand(Lowering &lowering, const Strip &strip, int64_t step)
    : lowering(lowering), e(lowering.emitter()), strip(strip), step(step) {
  if (strip.depthIsMinor || !strip.view.element.isF32() || strip.map->span() % kChunk) return;
  aligned = strip.isAligned(e);
}

void PanelOperand::copy(Num shared, Num k) {
  if (!aligned) return copyElements(shared, k);
  auto branch = e.b.create<scf::IfOp>(aligned, /*withElseRegion=*/true);
  e.inside(branch.thenBlock(), [&] { copyChunks(shared, k); });
  e.inside(branch.elseBlock(), [&] { copyElements(shared, k); });
}

/// Zeros behind the view's last column and the axis's end. A thread's chunks lie below each other where its
/// CTA copies whole depths at once.
void PanelOperand::copyChunks(Num shared, Num first) {
  const int64_t threads = lowering.layouts().threads(), across = strip.map->span() / kChunk;
  Num left = strip.view.sizes[1] - strip.offset;
  Num depth = strip.liveDepth(e, first, step);
  const auto liveBytes = [&](Num position) {
    return e.narrow(minimum(maximum(left - e.wide(position), e.i64(0)), e.i64(kChunk))) * 4;
  };
  const auto copyOne = [&](Num to, Num from, Num bytes, Num k) {
    copyAsync(e, to, from, 16, e.choose(k < depth, bytes, e.i32(0)).value);
  };
  const int64_t depths = threads / across;
  if (threads % across || step % depths)
    return forThread(across * step, kMostUnrolled, [&](Num number) {
      Num k = number / across, position = number % across * kChunk;
      copyOne(shared + place(position, k), strip.address(e, position, k, first), liveBytes(position), k);
    });
  Num k = e.thread() / across, position = e.thread() % across * kChunk, bytes = liveBytes(position);
  Num from = strip.address(e, position, k, first), to = shared + place(position, k);
  for (int64_t begin = 0; begin < step; begin += depths) {
    copyOne(to + 4 * begin * panelStride(*strip.map), from, bytes, k + begin);
    from = from + strip.view.rowStride * (4 * depths);
  }
}

/// Where that is the exception it takes neither code nor registers.
void PanelOperand::copyElements(Num shared, Num first) {
  const int64_t mostUnrolled = aligned ? 0 : kMostUnrolled;
  forThread(strip.map->span() * step, mostUnrolled, [&](Num number) { copyElement(shared, first, number); });
}

void PanelOperand::forThread(int64_t total, int64_t mostUnrolled, llvm::function_ref<void(Num)> f) {
  const int64_t threads = lowering.layouts().threads();
  if (total % threads == 0 && total / threads <= mostUnrolled) {
    for (int64_t begin = 0; begin < total; begin += threads)
      f(e.thread() + begin);
    return;
  }
  auto index = [&](int64_t value) { return e.toIndex(e.i64(value)); };
  auto loop = e.b.create<scf::ForOp>(e.toIndex(e.wide(e.thread())), index(total), index(threads));
  e.inside(loop.getBody(), [&] { f(e.narrow(e.fromIndex(loop.getInductionVar()))); });
}

/// In the order of memory.
void PanelOperand::copyElement(Num shared, Num first, Num number) {
  const int64_t minor = strip.depthIsMinor ? step : strip.map->span();
  Num position = strip.depthIsMinor ? number / minor : number % minor;
  Num k = strip.depthIsMinor ? number % minor : number / minor;
  Num along = strip.offset + e.wide(position), deep = first + e.wide(k);
  Value live = e.both(unsignedLess(along, strip.view.sizes[strip.freeAxis()]), deep < strip.depth);
  Num from = strip.address(e, position, k, first), to = shared + place(position, k);
  if (strip.view.element.isF32()) return copyAsync(e, to, from, 4, e.choose(live, e.i32(4), e.i32(0)).value);
  Value half = e.loadGlobal(from, 0, e.b.getIntegerType(16), 1, live)[0];
  e.storeShared(to, 0, widened(half));
}

Value PanelOperand::widened(Value bits) {
  Type element = strip.view.element;
  if (element.isF16()) return e.b.create<arith::ExtFOp>(e.b.getF32Type(), e.bitcast(element, bits));
  Value high = e.b.create<arith::ExtUIOp>(e.b.getI32Type(), bits);
  return e.bitcast(e.b.getF32Type(), e.b.create<arith::ShLIOp>(high, e.i32(16).value));
}

} // namespace tilewright::nvptx
