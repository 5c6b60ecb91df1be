// Products of fp32 operands rounded to TF32, by mma.sync.

#include "compiler/nvptx/threads/fragment_product.h"
#include "compiler/nvptx/threads/line_operand.h"
#include "compiler/nvptx/threads/panel_operand.h"

namespace tilewright::nvptx {

using namespace mlir;
using layout::Side;

namespace {

constexpr int64_t kStep = 16, kFragment = 8; // depths of a stage, of an instruction
constexpr int64_t kMostStages = 4;

/// The registers of one depth of 8 of a stage. Thread l of a warp, g = l/4 and t = l%4, holds of a 16×8 left
/// operand (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4), of an 8×8 right one (t, g), (t + 4, g).
class Tf32Operand {
public:
  Tf32Operand(Lowering &lowering, const Strip &strip, Side side)
      : lowering(lowering), e(lowering.emitter()), map(strip.map), side(side) {
    // ldmatrix moves rows of 16 bytes: four numbers along the contracted axis, a register each.
    if (strip.depthIsMinor && strip.view.element.isF32())
      lines.emplace(lowering, asHalves(strip), side, 2 * kStep);
    else
      panel.emplace(lowering, strip, kStep);
  }

  int64_t bytes() const { return lines ? lines->bytes() : panel->bytes(); }
  void copy(Num shared, Num k) { lines ? lines->copy(shared, k * 2) : panel->copy(shared, k); }

  /// A list for each 16 rows of a left operand, for each 8 columns of a right one.
  SmallVector<SmallVector<Value>> fragments(Num shared, int64_t k) {
    SmallVector<SmallVector<Value>> result = lines ? lines->fragments(shared, 2 * k) : fromPanel(shared, k);
    for (auto &fragment : result)
      for (Value &x : fragment)
        x = e.ptx(e.b.getI32Type(), "cvt.rna.tf32.f32 $0, $1;", "=r,r", {x}, false)[0];
    return result;
  }

private:
  static Strip asHalves(Strip strip) {
    strip.view.element = BFloat16Type::get(strip.view.element.getContext());
    strip.view.rowStride = strip.view.rowStride * 2;
    strip.view.sizes[1] = strip.view.sizes[1] * 2;
    strip.depth = strip.depth * 2;
    return strip;
  }

  SmallVector<SmallVector<Value>> fromPanel(Num shared, int64_t k) {
    const bool isLeft = side == Side::left;
    Num lane = e.thread() % 32, ofLane = isLeft ? lane / 4 : lane % 4 * 2;
    Num warp = lowering.threadPosition(*map) - ofLane;
    Num base = shared + ((lane % 4) * panelStride(*map) + warp + lane / 4) * 4;
    const auto load = [&](int64_t position, int64_t depth) {
      return e.loadShared(base, 4 * (depth * panelStride(*map) + position), e.b.getI32Type(), 1)[0];
    };
    SmallVector<SmallVector<Value>> result;
    for (int64_t i = 0; i < map->registers() / 2; ++i) {
      if (isLeft)
        result.push_back(
            {load(16 * i, k), load(16 * i + 8, k), load(16 * i, k + 4), load(16 * i + 8, k + 4)});
      else
        result.push_back({load(8 * i, k), load(8 * i, k + 4)});
    }
    return result;
  }

  Lowering &lowering;
  Emitter &e;
  const layout::AxisMap *map;
  Side side;
  std::optional<LineOperand> lines;
  std::optional<PanelOperand> panel;
};

} // namespace

std::unique_ptr<StagedProduct> makeTf32Product(Lowering &lowering, const Strip &left, const Strip &right) {
  Tf32Operand a(lowering, left, Side::left), b(lowering, right, Side::right);
  const int64_t fit = lowering.options().sharedLimit / (a.bytes() + b.bytes());
  return std::make_unique<FragmentProduct<Tf32Operand>>(lowering, TileLayout{left.map, right.map}, a, b,
                                                        MmaInstruction{kFragment, "tf32"}, kStep,
                                                        std::clamp<int64_t>(fit, 2, kMostStages));
}

} // namespace tilewright::nvptx
