// Products of 16-bit operands: cp.async into swizzled shared memory, ldmatrix, mma.sync.

#include "compiler/nvptx/threads/fragment_product.h"
#include "compiler/nvptx/threads/line_operand.h"

namespace tilewright::nvptx {

using layout::SharedTile;
using layout::Side;

/// Lines of 128 bytes and three stages where they fit, else of 64 bytes and up to four.
std::unique_ptr<StagedProduct> makeMmaProduct(Lowering &lowering, const Strip &left, const Strip &right) {
  const LoweringOptions &options = lowering.options();
  auto stagesThatFit = [&](int64_t step) {
    int64_t bytes = SharedTile{left.map->span(), step, left.depthIsMinor}.bytes() +
                    SharedTile{right.map->span(), step, right.depthIsMinor}.bytes();
    return options.sharedLimit / bytes;
  };
  int64_t step = options.step ? options.step : stagesThatFit(64) >= 3 ? 64 : 32;
  int64_t wanted = options.stages ? options.stages : step == 64 ? 3 : 4;
  int64_t stages = std::max<int64_t>(2, std::min(wanted, stagesThatFit(step)));
  LineOperand a(lowering, left, Side::left, step), b(lowering, right, Side::right, step);
  const MmaInstruction instruction{16, left.view.element.isBF16() ? "bf16" : "f16"};
  return std::make_unique<FragmentProduct<LineOperand>>(lowering, TileLayout{left.map, right.map}, a, b,
                                                        instruction, step, stages);
}

} // namespace tilewright::nvptx
