#include "compiler/nvptx/tile_gpu/tile_gpu.h"

#include "compiler/dialect/tile_ops.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include "compiler/nvptx/tile_gpu/tile_gpu_dialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/nvptx/tile_gpu/tile_gpu_attributes.cpp.inc"

#define GET_OP_CLASSES
#include "compiler/nvptx/tile_gpu/tile_gpu_ops.cpp.inc"

namespace tilewright::nvptx {

using namespace mlir;

/// A plan is of a kernel's only product, whose size it repeats, and of at most one store.
static LogicalResult verifyPlan(Operation *kernel, const WarpPlan &plan) {
  int64_t products = 0, boxed = 0;
  tile::ContractOp product;
  kernel->walk([&](Operation *op) {
    products += isa<tile::ContractOp, tile::DotOp>(op);
    boxed += op->hasAttr(kBoxedAttr);
    if (auto contract = dyn_cast<tile::ContractOp>(op)) product = contract;
  });
  if (products != 1 || !product)
    return kernel->emitOpError() << "expected one product of views for '" << kWarpsAttr << "', found "
                                 << products << " products";
  const auto shape = tile::tileType(product.getResult()).getShape();
  if (shape[0] != plan.rows || shape[1] != plan.columns)
    return kernel->emitOpError() << "expected '" << kWarpsAttr << "' of a product of " << shape[0] << "x"
                                 << shape[1] << ", found " << plan.rows << "x" << plan.columns;
  if (boxed != (plan.boxes > 0))
    return kernel->emitOpError() << "expected " << int(plan.boxes > 0) << " stores with '" << kBoxedAttr
                                 << "', found " << boxed;
  return success();
}

static LogicalResult verifyThreads(Operation *op, Attribute attribute) {
  auto isCount = [](int64_t threads) {
    return threads >= 32 && threads <= 1024 && llvm::isPowerOf2_64(threads);
  };
  auto threads = dyn_cast<IntegerAttr>(attribute);
  if (op->hasAttr(tile::kKernelAttr) && threads && threads.getType().isSignlessInteger(64) &&
      isCount(threads.getInt()))
    return success();
  return op->emitOpError() << "expected '" << kThreadsAttr << "' of 32, 64, … or 1024 on a kernel";
}

LogicalResult TileGpuDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == kBoxedAttr) {
    if (isa<tile::StoreOp, tile::ReduceAddOp>(op) && isa<UnitAttr>(attribute.getValue())) return success();
    return op->emitOpError() << "expected '" << kBoxedAttr
                             << "' to be a unit attribute of a store of a block";
  }
  if (attribute.getName() == kLayoutAttr) return verifyLayouts(op);
  if (attribute.getName() == kThreadsAttr) return verifyThreads(op, attribute.getValue());
  if (attribute.getName() != kWarpsAttr)
    return op->emitOpError() << "has an attribute that the dialect does not know: " << attribute.getName();
  if (!op->hasAttr(tile::kKernelAttr))
    return op->emitOpError() << "expected '" << kWarpsAttr << "' on a kernel";
  if (auto plan = dyn_cast<WarpPlanAttr>(attribute.getValue())) return verifyPlan(op, plan.getPlan());
  if (isa<AlikeAttr>(attribute.getValue())) return success();
  return op->emitOpError() << "expected '" << kWarpsAttr << "' to be a plan or a reason, found "
                           << attribute.getValue();
}

void TileGpuDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/nvptx/tile_gpu/tile_gpu_attributes.cpp.inc"
      >();
}

namespace {

/// Layouts repeat: they are printed ahead of a module, once each.
struct ShortNames : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attribute, raw_ostream &name) const override {
    if (!isa<LayoutAttr>(attribute)) return AliasResult::NoAlias;
    name << "layout";
    return AliasResult::FinalAlias;
  }
};

} // namespace

void TileGpuDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "compiler/nvptx/tile_gpu/tile_gpu_ops.cpp.inc"
      >();
  addInterfaces<ShortNames>();
}

} // namespace tilewright::nvptx
