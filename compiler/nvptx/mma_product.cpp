// Products of 16-bit operands: cp.async into swizzled shared memory, ldmatrix, mma.sync.

#include "compiler/nvptx/line_operand.h"

namespace tilewright::nvptx {

using namespace mlir;
using layout::AxisMap;
using layout::SharedTile;
using layout::Side;

namespace {

constexpr int64_t kFragment = 16; // depths

class MmaProduct : public StagedProduct {
public:
  MmaProduct(FunctionLowering &lowering, const Strip &left, const Strip &right, int64_t step, int64_t stages)
      : e(lowering.emitter()), element(left.view.element), rows(left.map), columns(right.map), depth(step),
        count(stages), a(lowering, left, Side::left, step), b(lowering, right, Side::right, step) {}

  int64_t step() const override { return depth; }
  int64_t stages() const override { return count; }
  int64_t stageBytes() const override { return a.bytes() + b.bytes(); }

  void copy(Num stage, Num k) override {
    a.copy(stage, k);
    b.copy(stage + a.bytes(), k);
  }

  SmallVector<Value> multiply(Num stage, ValueRange accumulators) override {
    SmallVector<Value> sums(accumulators);
    const std::string type = element.isBF16() ? "bf16" : "f16";
    for (int64_t k = 0; k < depth; k += kFragment) {
      auto left = a.fragments(stage, k), right = b.fragments(stage + a.bytes(), k);
      for (int64_t m = 0; m < rows->registers() / 2; ++m)
        for (int64_t n = 0; n < columns->registers() / 2; ++n) {
          const auto &pair = right[n / 2];
          addFragments(e, "m16n8k16", type, {sums, columns->registers(), m, n}, left[m],
                       {pair[n % 2 * 2], pair[n % 2 * 2 + 1]});
        }
    }
    return sums;
  }

private:
  Emitter &e;
  Type element;
  const AxisMap *rows, *columns;
  int64_t depth, count;
  LineOperand a, b;
};

} // namespace

/// Lines of 128 bytes and three stages where they fit, else of 64 bytes and up to four.
std::unique_ptr<StagedProduct> makeMmaProduct(FunctionLowering &lowering, const Strip &left,
                                              const Strip &right) {
  const LoweringOptions &options = lowering.options();
  auto stagesThatFit = [&](int64_t step) {
    int64_t bytes = SharedTile{left.map->span(), step, left.depthIsMinor}.bytes() +
                    SharedTile{right.map->span(), step, right.depthIsMinor}.bytes();
    return options.sharedLimit / bytes;
  };
  int64_t step = options.step ? options.step : stagesThatFit(64) >= 3 ? 64 : 32;
  int64_t wanted = options.stages ? options.stages : step == 64 ? 3 : 4;
  int64_t stages = std::max<int64_t>(2, std::min(wanted, stagesThatFit(step)));
  return std::make_unique<MmaProduct>(lowering, left, right, step, stages);
}

} // namespace tilewright::nvptx
