#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "compiler/dialect/tile_ops.h"

#define GET_TYPEDEF_CLASSES
#include "compiler/dialect/tile_types.cpp.inc"

using namespace mlir;

namespace tilewright::tile {

void TileDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/dialect/tile_types.cpp.inc"
      >();
}

// <?x?xbf16>: one `?x` for each dimension.
Type ViewType::parse(AsmParser &parser) {
  SmallVector<int64_t> dimensions;
  Type element;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseDimensionList(dimensions, /*allowDynamic=*/true) ||
      parser.parseType(element) || parser.parseGreater())
    return {};
  if (!llvm::all_of(dimensions, ShapedType::isDynamic)) {
    parser.emitError(location, "a view's sizes are known at run time: expected '?' for each");
    return {};
  }
  return parser.getChecked<ViewType>(location, parser.getContext(), unsigned(dimensions.size()), element);
}

void ViewType::print(AsmPrinter &printer) const {
  printer << "<";
  for (unsigned i = 0; i < getRank(); ++i)
    printer << "?x";
  printer << getElement() << ">";
}

LogicalResult ViewType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, unsigned rank,
                               Type element) {
  if (rank != 1 && rank != 2) return emitError() << "expected a view of rank 1 or 2, found rank " << rank;
  if (!element.isF32() && !element.isBF16() && !element.isF16() && !element.isSignlessInteger(32) &&
      !element.isSignlessInteger(64))
    return emitError() << "expected a view of f32, bf16, f16, i32 or i64, found " << element;
  return success();
}

static bool isTileOf(Type type, llvm::function_ref<bool(Type)> accepts) {
  return isTile(type) && accepts(elementOf(type));
}

bool isTile(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() != 2 || tensor.getEncoding()) return false;
  if (tensor.getDimSize(0) < 1 || tensor.getDimSize(1) == 0) return false;
  Type element = tensor.getElementType();
  return element.isF32() || element.isBF16() || element.isF16() || element.isSignlessInteger(64) ||
         element.isSignlessInteger(32) || element.isSignlessInteger(1);
}

bool isFloatTile(Type type) {
  return isTileOf(type, [](Type element) { return isa<FloatType>(element); });
}

bool isI32Tile(Type type) {
  return isTileOf(type, [](Type element) { return element.isInteger(32); });
}

bool isF32Tile(Type type) {
  return isTileOf(type, [](Type element) { return element.isF32(); });
}

bool isNumberTile(Type type) {
  return isTileOf(type, [](Type element) {
    return element.isF32() || element.isSignlessInteger(32) || element.isSignlessInteger(64);
  });
}

bool isScalarTile(Type type) {
  return isTileOf(type, [](Type element) { return !element.isF16() && !element.isBF16(); }) &&
         rowsOf(type) == 1 && columnsOf(type) == 1;
}

bool isColumnTile(Type type) { return isTile(type) && columnsOf(type) == 1; }

bool isIndexColumn(Type type) { return isColumnTile(type) && elementOf(type).isSignlessInteger(32); }

} // namespace tilewright::tile
