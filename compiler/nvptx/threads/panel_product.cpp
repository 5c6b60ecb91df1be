// Products by multiply-adds, whose operands are staged as fp32.

#include "compiler/nvptx/threads/panel_operand.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tilewright::nvptx {

using namespace mlir;
using layout::AxisMap;

/// 8 more than a multiple of 32: the four depths that a TF32 operand takes lie in different banks, and lines
/// start at 16 bytes.
int64_t panelStride(const AxisMap &map) { return (map.span() + 31) / 32 * 32 + 8; }

/// Runs of registers along an axis, loaded as vectors.
static SmallVector<Value> loadPanelRow(Lowering &lowering, const AxisMap &map, Num line) {
  Emitter &e = lowering.emitter();
  SmallVector<Value> values;
  Num base = line + lowering.threadPosition(map) * 4;
  for (int64_t reg = 0; reg < map.registers(); reg += map.run)
    values.append(e.loadShared(base, map.offsets[reg] * 4, e.b.getF32Type(), map.run));
  return values;
}

SmallVector<Value> multiplyPanels(Lowering &lowering, TileLayout layout, Num left, Num right, int64_t depth,
                                  ValueRange accumulators) {
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

class PanelProduct : public OperandProduct<PanelOperand> {
public:
  PanelProduct(Lowering &lowering, const TileLayout &layout, const PanelOperand &left,
               const PanelOperand &right)
      : OperandProduct(left, right, kStep, kStages), lowering(lowering), e(lowering.emitter()),
        layout(layout) {}

  /// Sums of one step first, then those of all steps: a long fp32 sum of terms of one sign rounds away far
  /// more than two short ones.
  SmallVector<Value> multiply(Num stage, ValueRange accumulators) override {
    const SmallVector<Value> zeros(accumulators.size(), e.f32(0));
    SmallVector<Value> sums = multiplyPanels(lowering, layout, stage, rightOf(stage), kStep, zeros);
    for (auto [sum, total] : llvm::zip_equal(sums, accumulators))
      sum = e.b.create<arith::AddFOp>(total, sum);
    return sums;
  }

private:
  Lowering &lowering;
  Emitter &e;
  TileLayout layout;
};

} // namespace

std::unique_ptr<StagedProduct> makePanelProduct(Lowering &lowering, const Strip &left, const Strip &right) {
  PanelOperand a(lowering, left, kStep), b(lowering, right, kStep);
  return std::make_unique<PanelProduct>(lowering, TileLayout{left.map, right.map}, a, b);
}

} // namespace tilewright::nvptx
