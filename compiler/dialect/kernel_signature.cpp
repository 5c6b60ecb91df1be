#include "compiler/dialect/kernel_signature.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

#include "compiler/dialect/tile_ops.h"

using namespace mlir;

namespace tilewright::tile {

ElementType elementType(Type type) {
  if (type.isBF16()) return ElementType::bf16;
  if (type.isF16()) return ElementType::f16;
  if (type.isInteger(32)) return ElementType::i32;
  return type.isInteger(64) ? ElementType::i64 : ElementType::f32;
}

static Parameter parameterOf(FunctionOpInterface kernel, unsigned argument) {
  Type type = kernel.getArgumentTypes()[argument];
  Parameter parameter;
  parameter.name = kernel.getArgAttrOfType<StringAttr>(argument, kNameAttr).str();
  parameter.written = bool(kernel.getArgAttr(argument, kWrittenAttr));
  if (auto view = dyn_cast<ViewType>(type)) {
    parameter.rank = int(view.getRank());
    parameter.element = elementType(view.getElement());
  } else {
    parameter.kind = type.isIndex() ? Parameter::Kind::index : Parameter::Kind::float32;
  }
  return parameter;
}

std::vector<Parameter> parametersOf(FunctionOpInterface kernel) {
  std::vector<Parameter> parameters;
  for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
    parameters.push_back(parameterOf(kernel, i));
  return parameters;
}

std::vector<GridAxis> gridOf(FunctionOpInterface kernel) {
  std::vector<GridAxis> grid;
  if (auto axes = kernel->getAttrOfType<ArrayAttr>(kGridAttr))
    for (auto axis : axes.getAsRange<DenseI64ArrayAttr>())
      grid.push_back({int(axis[0]), int(axis[1]), axis[2]});
  return grid;
}

} // namespace tilewright::tile
