#include "compiler/nvptx/tile_gpu/axis_meetings.h"
#include "compiler/nvptx/tile_gpu/multiply.h"

namespace tilewright::nvptx {

using namespace mlir;

static LogicalResult checkResult(Operation *op, Value tile, const Layouts &layouts) {
  const TileLayout layout = layouts.of(tile);
  if (!layout.rows)
    return op->emitError("makes a tile without a layout: expected assign-layouts to have run");
  if (layout.registers() <= kMostRegisters) return success();
  const RankedTensorType type = tile::tileType(tile);
  return op->emitError("makes a tile of ")
         << type.getDimSize(0) << "x" << type.getDimSize(1) << ", which is " << layout.registers()
         << " numbers for each of " << layouts.threads() << " threads; expected at most " << kMostRegisters
         << ": use smaller blocks";
}

static LogicalResult checkMeetings(Operation *op, const Layouts &layouts) {
  LogicalResult result = success();
  forEachMeeting(op, [&](Value a, Value b, int axis) {
    const TileLayout x = layouts.of(a), y = layouts.of(b);
    if (failed(result) || (axis == 0 ? x.rows == y.rows : x.columns == y.columns)) return;
    result = op->emitError("has tiles of different layouts that meet along axis ") << axis;
  });
  return result;
}

static LogicalResult checkProduct(Operation *product, const Layouts &layouts,
                                  const LoweringOptions &options) {
  if (auto dot = dyn_cast<tile::DotOp>(product); dot && isByWgmma(dot, layouts, options)) return success();
  if (canHold(layouts.ofProduct(product), multiplyFor(product, options))) return success();
  return product->emitError("has accumulators in a layout that its instructions do not leave them in");
}

LogicalResult checkLayouts(func::FuncOp kernel, const LoweringOptions &options) {
  const Layouts layouts(kernel);
  WalkResult result = kernel.walk([&](Operation *op) -> WalkResult {
    for (Value tile : llvm::make_filter_range(op->getResults(), isTile))
      if (failed(checkResult(op, tile, layouts))) return WalkResult::interrupt();
    if (isa<tile::ContractOp, tile::DotOp>(op) && failed(checkProduct(op, layouts, options)))
      return WalkResult::interrupt();
    return failed(checkMeetings(op, layouts)) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

} // namespace tilewright::nvptx
