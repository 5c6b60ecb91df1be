// Products whose operands are staged as fp32: multiply-adds, or mma.sync on TF32.

#include "compiler/nvptx/product.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tilewright::nvptx {

using namespace mlir;
using layout::AxisMap;

/// 8 more than a multiple of 32: the four depths that a TF32 operand takes lie in different banks, and lines
/// start at 16 bytes.
int64_t panelStride(const AxisMap &map) { return (map.span() + 31) / 32 * 32 + 8; }

/// Runs of registers along an axis, loaded as vectors.
static SmallVector<Value> loadPanelRow(FunctionLowering &lowering, const AxisMap &map, Num line) {
  Emitter &e = lowering.emitter();
  SmallVector<Value> values;
  Num base = line + lowering.threadPosition(map) * 4;
  for (int64_t reg = 0; reg < map.registers(); reg += map.run)
    values.append(e.loadShared(base, map.offsets[reg] * 4, e.b.getF32Type(), map.run));
  return values;
}

SmallVector<Value> multiplyPanels(FunctionLowering &lowering, TileLayout layout, Num left, Num right,
                                  int64_t depth, ValueRange accumulators) {
  Emitter &e = lowering.emitter();
  const int64_t leftLine = 4 * panelStride(*layout.rows), rightLine = 4 * panelStride(*layout.columns);
  const int64_t unroll = depth % 4 == 0 ? 4 : 1;
  auto index = [&](int64_t value) { return e.toIndex(e.i64(value)); };
  auto loop = e.b.create<scf::ForOp>(index(0), index(depth), index(unroll), accumulators);
  e.inside(loop.getBody(), [&] {
    SmallVector<Value> sums(loop.getRegionIterArgs());
    Num k = e.narrow(e.fromIndex(loop.getInductionVar()));
    Num leftBase = left + k * leftLine, rightBase = right + k * rightLine;
    for (int64_t i = 0; i < unroll; ++i) {
      SmallVector<Value> a = loadPanelRow(lowering, *layout.rows, leftBase + i * leftLine);
      SmallVector<Value> b = loadPanelRow(lowering, *layout.columns, rightBase + i * rightLine);
      size_t next = 0;
      for (Value x : a)
        for (Value y : b) {
          sums[next] = e.b.create<math::FmaOp>(x, y, sums[next]);
          ++next;
        }
    }
    e.b.create<scf::YieldOp>(sums);
  });
  return SmallVector<Value>(ValueRange(loop.getResults()));
}

namespace {

constexpr int64_t kStep = 16, kStages = 3;

class PanelProduct : public StagedProduct {
public:
  PanelProduct(FunctionLowering &lowering, const Strip &left, const Strip &right, Multiply multiply)
      : lowering(lowering), e(lowering.emitter()), left(left), right(right), multiplyBy(multiply) {}

  int64_t step() const override { return kStep; }
  int64_t stages() const override { return kStages; }
  int64_t stageBytes() const override { return leftBytes() + 4 * kStep * panelStride(*right.map); }

  void copy(Num stage, Num k) override {
    copyStrip(left, stage, k);
    copyStrip(right, stage + leftBytes(), k);
  }

  SmallVector<Value> multiply(Num stage, ValueRange accumulators) override {
    TileLayout layout{left.map, right.map};
    if (multiplyBy == Multiply::tf32) return multiplyTf32(stage, accumulators);
    // Sums of one step first, then those of all steps: a long fp32 sum of terms of one sign rounds away far
    // more than two short ones.
    const SmallVector<Value> zeros(accumulators.size(), e.f32(0));
    SmallVector<Value> sums = multiplyPanels(lowering, layout, stage, stage + leftBytes(), kStep, zeros);
    for (auto [sum, total] : llvm::zip_equal(sums, accumulators))
      sum = e.b.create<arith::AddFOp>(total, sum);
    return sums;
  }

private:
  int64_t leftBytes() const { return 4 * kStep * panelStride(*left.map); }

  /// One element a thread at a time, in the order of memory.
  void copyStrip(const Strip &strip, Num shared, Num first) {
    const int64_t threads = lowering.layouts().threads(), total = strip.map->span() * kStep;
    constexpr int64_t mostUnrolled = 16;
    if (total % threads == 0 && total / threads <= mostUnrolled) {
      for (int64_t begin = 0; begin < total; begin += threads)
        copyElement(strip, shared, first, e.thread() + begin);
      return;
    }
    auto index = [&](int64_t value) { return e.toIndex(e.i64(value)); };
    auto loop = e.b.create<scf::ForOp>(e.toIndex(e.wide(e.thread())), index(total), index(threads));
    e.inside(loop.getBody(),
             [&] { copyElement(strip, shared, first, e.narrow(e.fromIndex(loop.getInductionVar()))); });
  }

  void copyElement(const Strip &strip, Num shared, Num first, Num number) {
    const int64_t minor = strip.depthIsMinor ? kStep : strip.map->span();
    Num position = strip.depthIsMinor ? number / minor : number % minor;
    Num k = strip.depthIsMinor ? number % minor : number / minor;
    Num along = strip.offset + e.wide(position), deep = first + e.wide(k);
    Value live = e.both(unsignedLess(along, strip.view.sizes[strip.freeAxis()]), deep < strip.depth);
    Num row = strip.depthIsMinor ? along : deep, column = strip.depthIsMinor ? deep : along;
    const int64_t bytes = bytesOf(strip.view.element);
    Num from = strip.view.pointer + (row * strip.view.rowStride + column) * bytes;
    Num to = shared + (k * panelStride(*strip.map) + position) * 4;
    if (bytes == 4) return copyAsync(e, to, from, 4, e.choose(live, e.i32(4), e.i32(0)));
    Value half = e.loadGlobal(from, 0, e.b.getIntegerType(16), 1, live)[0];
    e.storeShared(to, 0, widened(half, strip.view.element));
  }

  Value widened(Value bits, Type element) {
    if (element.isF16()) return e.b.create<arith::ExtFOp>(e.b.getF32Type(), e.bitcast(element, bits));
    Value high = e.b.create<arith::ExtUIOp>(e.b.getI32Type(), bits);
    return e.bitcast(e.b.getF32Type(), e.b.create<arith::ShLIOp>(high, e.i32(16).value));
  }

  // ---- TF32 ----

  /// Thread l of a warp, g = l/4 and t = l%4, holds of a 16×8 left operand (g, t), (g + 8, t), (g, t + 4),
  /// (g + 8, t + 4), of an 8×8 right one (t, g), (t + 4, g).
  SmallVector<Value> multiplyTf32(Num stage, ValueRange accumulators) {
    SmallVector<Value> sums(accumulators);
    Num lane = e.thread() % 32;
    auto base = [&](const Strip &strip, Num panel, Num lanePosition) {
      Num warp = lowering.threadPosition(*strip.map) - lanePosition;
      return panel + ((lane % 4) * panelStride(*strip.map) + warp + lane / 4) * 4;
    };
    Num a = base(left, stage, lane / 4), b = base(right, stage + leftBytes(), lane % 4 * 2);
    const int64_t rows = left.map->registers() / 2, columns = right.map->registers() / 2;
    for (int64_t k = 0; k < kStep; k += 8) {
      SmallVector<SmallVector<Value>> rightOperands;
      for (int64_t n = 0; n < columns; ++n)
        rightOperands.push_back({load(right, b, 8 * n, k), load(right, b, 8 * n, k + 4)});
      for (int64_t m = 0; m < rows; ++m) {
        SmallVector<Value> leftOperand{load(left, a, 16 * m, k), load(left, a, 16 * m + 8, k),
                                       load(left, a, 16 * m, k + 4), load(left, a, 16 * m + 8, k + 4)};
        for (int64_t n = 0; n < columns; ++n)
          multiplyOne(sums, m, n, leftOperand, rightOperands[n]);
      }
    }
    return sums;
  }

  Value load(const Strip &strip, Num base, int64_t position, int64_t k) {
    int64_t offset = 4 * (k * panelStride(*strip.map) + position);
    Value x = e.loadShared(base, offset, e.b.getF32Type(), 1)[0];
    return e.ptx(e.b.getI32Type(), "cvt.rna.tf32.f32 $0, $1;", "=r,f", {x}, false)[0];
  }

  void multiplyOne(SmallVector<Value> &sums, int64_t m, int64_t n, ValueRange a, ValueRange b) {
    auto place = [&](int64_t i) -> Value & {
      return sums[(2 * m + i / 2) * right.map->registers() + 2 * n + i % 2];
    };
    SmallVector<Value> operands(a);
    operands.append(b.begin(), b.end());
    for (int64_t i = 0; i < 4; ++i)
      operands.push_back(place(i));
    SmallVector<Type> results(4, e.b.getF32Type());
    auto next = e.ptx(results,
                      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {$0, $1, $2, $3}, "
                      "{$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};",
                      "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f", operands, false);
    for (int64_t i = 0; i < 4; ++i)
      place(i) = next[i];
  }

  FunctionLowering &lowering;
  Emitter &e;
  Strip left, right;
  Multiply multiplyBy;
};

} // namespace

std::unique_ptr<StagedProduct> makePanelProduct(FunctionLowering &lowering, const Strip &left,
                                                const Strip &right, Multiply multiply) {
  return std::make_unique<PanelProduct>(lowering, left, right, multiply);
}

} // namespace tilewright::nvptx
