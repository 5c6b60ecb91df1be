// The layouts of a kernel's tiles, to attributes and back.

#include "compiler/nvptx/tile_gpu/layouts.h"

#include "compiler/nvptx/tile_gpu/tile_gpu.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

namespace tilewright::nvptx {

using namespace mlir;
using layout::AxisMap;

bool isTile(Value value) { return isa<RankedTensorType>(value.getType()); }

static TileLayout layoutFrom(LayoutAttr layout) {
  return {&layout.getRows().getMap(), &layout.getColumns().getMap()};
}

Layouts::Layouts(func::FuncOp kernel)
    : threadBits_(llvm::Log2_64(kernel->getAttrOfType<IntegerAttr>(kThreadsAttr).getInt())) {
  kernel.walk([&](Operation *op) {
    for (OpResult result : op->getResults())
      if (LayoutAttr layout = isTile(result) ? layoutOf(result) : LayoutAttr())
        layouts_[result] = layoutFrom(layout);
    if (auto loop = dyn_cast<scf::ForOp>(op))
      for (auto [argument, result] : llvm::zip(loop.getRegionIterArgs(), loop.getResults()))
        if (isTile(result)) layouts_[argument] = of(result);
    if (isa<tile::ContractOp, tile::DotOp>(op)) products_[op] = of(op->getResult(0));
  });
}

namespace {

/// Attributes of layouts. Each map is verified once, and numbered as an axis class when it is first met.
class LayoutWriter {
public:
  LayoutWriter(func::FuncOp kernel, const AxisMap &single) : kernel(kernel) { axisOf(single, 0); }

  /// Null, and an error on the kernel, for what is no layout.
  LayoutAttr attributeOf(TileLayout layout) {
    AxisAttr rows = axisOf(*layout.rows, axes.size()), columns = axisOf(*layout.columns, axes.size());
    if (!rows || !columns) return {};
    return LayoutAttr::getChecked([this] { return error(); }, kernel.getContext(), rows, columns);
  }

private:
  AxisAttr axisOf(const AxisMap &map, int64_t number) {
    AxisAttr &axis = axes[&map];
    return axis ? axis
                : axis = AxisAttr::getChecked([this] { return error(); }, kernel.getContext(), number, map);
  }
  InFlightDiagnostic error() {
    return kernel.emitError("has a layout that does not hold each element once: ");
  }

  func::FuncOp kernel;
  DenseMap<const AxisMap *, AxisAttr> axes;
};

} // namespace

/// Those of an earlier run, which are for its layouts.
static void eraseConversions(func::FuncOp kernel) {
  kernel.walk([](ConvertLayoutOp convert) {
    convert.getResult().replaceAllUsesWith(convert.getValue());
    convert.erase();
  });
}

/// Leaves a product's result as its instructions do; what uses it gets it in another layout.
static void convertResult(Operation *product, Attribute own, Attribute wanted) {
  OpBuilder b(product->getContext());
  b.setInsertionPointAfter(product);
  Value result = product->getResult(0);
  auto convert = b.create<ConvertLayoutOp>(product->getLoc(), result);
  result.replaceAllUsesExcept(convert.getResult(), convert);
  product->setAttr(kLayoutAttr, own);
  convert->setAttr(kLayoutAttr, wanted);
}

LogicalResult Layouts::write(func::FuncOp kernel) const {
  MLIRContext *context = kernel.getContext();
  LayoutWriter writer(kernel, single_);
  eraseConversions(kernel);
  kernel->setAttr(kThreadsAttr, Builder(context).getI64IntegerAttr(threads()));
  WalkResult result = kernel.walk([&](Operation *op) -> WalkResult {
    SmallVector<Attribute> ofResults;
    for (Value tile : llvm::make_filter_range(op->getResults(), isTile))
      ofResults.push_back(writer.attributeOf(of(tile)));
    if (ofResults.empty()) return WalkResult::advance();
    if (llvm::is_contained(ofResults, Attribute())) return WalkResult::interrupt();
    op->setAttr(kLayoutAttr, ofResults.size() == 1 ? ofResults.front() : ArrayAttr::get(context, ofResults));
    if (isa<tile::ContractOp, tile::DotOp>(op)) {
      LayoutAttr own = writer.attributeOf(ofProduct(op));
      if (!own) return WalkResult::interrupt();
      if (own != ofResults.front()) convertResult(op, own, ofResults.front());
    }
    return failed(verifyLayouts(op)) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

} // namespace tilewright::nvptx
