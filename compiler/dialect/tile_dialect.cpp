#include "mlir/Interfaces/FunctionInterfaces.h"

#include "compiler/dialect/tile_ops.h"

#include "compiler/dialect/tile_dialect.cpp.inc"

using namespace mlir;

namespace tilewright::tile {

void TileDialect::initialize() {
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "compiler/dialect/tile_ops.cpp.inc"
      >();
}

static LogicalResult verifyGridAxis(FunctionOpInterface kernel, Attribute attribute) {
  auto axis = dyn_cast<DenseI64ArrayAttr>(attribute);
  if (!axis || axis.size() != 3)
    return kernel.emitOpError() << "expected an axis of '" << kGridAttr
                                << "' to be array<i64: argument, dim, block>, found " << attribute;
  int64_t argument = axis[0], dim = axis[1], block = axis[2];
  if (argument < 0 || argument >= kernel.getNumArguments())
    return kernel.emitOpError() << "expected '" << kGridAttr << "' to name one of "
                                << kernel.getNumArguments() << " arguments, found argument " << argument;
  Type type = kernel.getArgumentTypes()[argument];
  auto view = dyn_cast<ViewType>(type);
  if (!view && !type.isIndex())
    return kernel.emitOpError() << "expected '" << kGridAttr
                                << "' to name a view or an index, found argument " << argument << " of type "
                                << type;
  if (dim < 0 || dim >= (view ? int64_t(view.getRank()) : 1))
    return kernel.emitOpError() << "expected '" << kGridAttr << "' to name a dimension of " << type
                                << ", found " << dim;
  if (block < 1)
    return kernel.emitOpError() << "expected a block of at least 1 in '" << kGridAttr << "', found " << block;
  return success();
}

static LogicalResult verifyGrid(Operation *op, Attribute attribute) {
  auto kernel = dyn_cast<FunctionOpInterface>(op);
  auto axes = dyn_cast<ArrayAttr>(attribute);
  if (!kernel || !axes || axes.size() > 3)
    return op->emitOpError() << "expected '" << kGridAttr
                             << "' to be an array of 0 to 3 axes of a function, found " << attribute;
  for (Attribute axis : axes)
    if (failed(verifyGridAxis(kernel, axis))) return failure();
  return success();
}

static LogicalResult verifyKernel(Operation *op, Attribute attribute) {
  auto kernel = dyn_cast<FunctionOpInterface>(op);
  if (!kernel || !isa<UnitAttr>(attribute))
    return op->emitOpError() << "expected '" << kKernelAttr
                             << "' to be a unit attribute of a function, found " << attribute;
  if (!kernel.getResultTypes().empty())
    return op->emitOpError() << "expected a kernel without results, found " << kernel.getResultTypes().size();
  for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    if (!isa<ViewType>(type) && !type.isIndex() && !type.isF32())
      return op->emitOpError() << "expected a kernel's arguments to be views, index or f32, found " << type
                               << " as argument " << i;
    if (!kernel.getArgAttrOfType<StringAttr>(i, kNameAttr))
      return op->emitOpError() << "expected '" << kNameAttr
                               << "' on each argument of a kernel, found none on argument " << i;
  }
  return success();
}

LogicalResult TileDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == kGridAttr) return verifyGrid(op, attribute.getValue());
  if (attribute.getName() == kKernelAttr) return verifyKernel(op, attribute.getValue());
  if (attribute.getName() == kSweepAttr || attribute.getName() == kPartnersAttr) return success();
  return op->emitOpError() << "expected '" << kKernelAttr << "', '" << kGridAttr << "', '" << kSweepAttr
                           << "' or '" << kPartnersAttr << "', found attribute " << attribute.getName();
}

LogicalResult TileDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned argument,
                                                    NamedAttribute attribute) {
  if (attribute.getName() == kNameAttr) {
    if (isa<StringAttr>(attribute.getValue())) return success();
    return op->emitOpError() << "expected '" << kNameAttr << "' to be a string, found "
                             << attribute.getValue();
  }
  if (attribute.getName() != kWrittenAttr)
    return op->emitOpError() << "expected '" << kNameAttr << "' or '" << kWrittenAttr << "' on argument "
                             << argument << ", found " << attribute.getName();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (isa<UnitAttr>(attribute.getValue()) && function && isa<ViewType>(function.getArgumentTypes()[argument]))
    return success();
  return op->emitOpError() << "expected '" << kWrittenAttr << "' to be a unit attribute of a view, found "
                           << attribute.getValue() << " on argument " << argument;
}

} // namespace tilewright::tile
