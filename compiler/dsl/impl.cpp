#include "compiler/dsl/impl.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace tilewright {

KernelBuilder::Impl::Impl(MLIRContext &context, const std::string &name)
    : kernelName(name), builder(&context), location(NameLoc::get(builder.getStringAttr(name))),
      module(ModuleOp::create(location)) {
  builder.setInsertionPointToStart(module->getBody());
  function = create<func::FuncOp>(name, builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(function.addEntryBlock());
}

void KernelBuilder::Impl::fail(const std::string &operation, const std::string &message) {
  if (status.ok()) status = compileError("kernel '" + kernelName + "': " + operation + ": " + message);
}

Value KernelBuilder::Impl::use(const Handle &handle, const char *operation) {
  if (!status.ok()) return {};
  if (!handle.valid()) {
    fail(operation, "expected operands that this kernel made, found a handle without a value");
    return {};
  }
  if (handle.builder() != &this->handle) {
    fail(operation, "expected operands that this kernel made, found one of another kernel");
    return {};
  }
  Value value = Value::getFromOpaquePointer(handle.opaque());
  if (value.getParentRegion()->isAncestor(builder.getInsertionBlock()->getParent())) return value;
  fail(operation,
       "expected operands that are visible here, found one from inside a loop or condition that has ended; "
       "carry it out with forRange");
  return {};
}

Value KernelBuilder::Impl::useTile(const Tile &tile, const char *operation, StringRef expected,
                                   llvm::function_ref<bool(Type)> accepts) {
  Value value = use(tile, operation);
  if (!value || !accepts || accepts(tile::elementOf(value.getType()))) return value;
  fail(operation, "expected a tile of " + expected.str() + ", found " + describe(value.getType()));
  return {};
}

Value KernelBuilder::Impl::useColumn(const Tile &index, const char *operation, int64_t rows) {
  Value value = use(index, operation);
  if (!value) return {};
  TileShape column{rows, 1, {}};
  if (broadcastsTo(value, column) && tile::elementOf(value.getType()).isInteger(32))
    return broadcastTo(value, column);
  fail(operation, "expected an index of " + std::to_string(rows) + "x1 i32 (see cast), found " +
                      describe(value.getType()));
  return {};
}

Tile KernelBuilder::Impl::wrapTile(Value value, Value width) {
  if (tile::isLong(value.getType())) widths[value] = width;
  return {&handle, value.getAsOpaquePointer()};
}

Value KernelBuilder::Impl::constantIndex(int64_t value) { return create<arith::ConstantIndexOp>(value); }

TileShape KernelBuilder::Impl::shapeOf(Value tile) {
  Type type = tile.getType();
  return {tile::rowsOf(type), tile::columnsOf(type), widths.lookup(tile)};
}

std::optional<TileShape> KernelBuilder::Impl::join(const TileShape &a, const TileShape &b,
                                                   const char *operation) {
  bool rowsMeet = a.rows == b.rows || a.rows == 1 || b.rows == 1;
  bool columnsMeet = a.columns == b.columns || a.columns == 1 || b.columns == 1;
  if (!rowsMeet || !columnsMeet) {
    fail(operation,
         "expected shapes that are equal or 1 along each axis, found " + describe(a) + " and " + describe(b));
    return {};
  }
  const TileShape &wider = a.columns == 1 ? b : a;
  return TileShape{std::max(a.rows, b.rows), wider.columns, wider.width};
}

bool KernelBuilder::Impl::broadcastsTo(Value tile, const TileShape &shape) {
  TileShape own = shapeOf(tile);
  return (own.rows == 1 || own.rows == shape.rows) && (own.columns == 1 || own.columns == shape.columns);
}

Value KernelBuilder::Impl::broadcastTo(Value tile, const TileShape &shape) {
  TileShape own = shapeOf(tile);
  if (own.rows == shape.rows && own.columns == shape.columns) return tile;
  Value size = shape.isLong() && !own.isLong() ? shape.width : Value();
  Type type = RankedTensorType::get({shape.rows, shape.columns}, tile::elementOf(tile.getType()));
  Value grown = create<tile::BroadcastOp>(type, tile, size);
  if (shape.isLong()) widths[grown] = shape.width;
  return grown;
}

Type KernelBuilder::Impl::mlirType(ElementType element) {
  switch (element) {
  case ElementType::f32:
    return builder.getF32Type();
  case ElementType::bf16:
    return builder.getBF16Type();
  case ElementType::f16:
    return builder.getF16Type();
  case ElementType::i32:
    return builder.getI32Type();
  case ElementType::i64:
    return builder.getI64Type();
  }
  return {};
}

static Type withElement(Value tile, Type element) { return tile::tileType(tile).clone(element); }

Value KernelBuilder::Impl::widened(Value tile) {
  Type element = tile::elementOf(tile.getType());
  if (!element.isBF16() && !element.isF16()) return tile;
  return create<arith::ExtFOp>(withElement(tile, builder.getF32Type()), tile);
}

Value KernelBuilder::Impl::asElementsOf(Value tile, tile::ViewType view, const char *operation) {
  Type element = tile::elementOf(tile.getType());
  if (element == view.getElement()) return tile;
  auto widening = tile.getDefiningOp<arith::ExtFOp>();
  if (widening && tile::elementOf(widening.getIn().getType()) == view.getElement()) return widening.getIn();
  if (element.isF32() && llvm::isa<FloatType>(view.getElement()))
    return create<arith::TruncFOp>(withElement(tile, view.getElement()), tile);
  fail(operation,
       "expected a tile that fits a " + describe(view) + " (see cast), found " + describe(tile.getType()));
  return {};
}

bool isIdentifier(StringRef name) {
  return !name.empty() && !llvm::isDigit(name[0]) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

KernelBuilder::Impl *implOf(std::initializer_list<const Handle *> operands) {
  for (const Handle *operand : operands)
    if (operand->builder()) return &operand->builder()->impl();
  return nullptr;
}

std::optional<Operands> meet(KernelBuilder::Impl &impl, const char *operation, const Tile &a, const Tile &b,
                             StringRef expected, llvm::function_ref<bool(Type)> accepts) {
  Value x = impl.useTile(a, operation, expected, accepts), y = impl.useTile(b, operation, expected, accepts);
  if (!x || !y) return {};
  if (tile::elementOf(x.getType()) != tile::elementOf(y.getType())) {
    impl.fail(operation, "expected two tiles of one kind (see cast), found " + describe(x.getType()) +
                             " and " + describe(y.getType()));
    return {};
  }
  auto shape = impl.join(impl.shapeOf(x), impl.shapeOf(y), operation);
  if (!shape) return {};
  return Operands{impl.broadcastTo(x, *shape), impl.broadcastTo(y, *shape), *shape};
}

static std::string elementText(Type element) {
  if (element.isInteger(1)) return "truth values";
  std::string text;
  llvm::raw_string_ostream(text) << element;
  return text;
}

std::string describe(const TileShape &shape) {
  return std::to_string(shape.rows) + "x" + (shape.isLong() ? "whole" : std::to_string(shape.columns));
}

std::string describe(Type tile) {
  return describe(TileShape{tile::rowsOf(tile), tile::columnsOf(tile), {}}) + " " +
         elementText(tile::elementOf(tile));
}

std::string describe(tile::ViewType view) {
  return "view of rank " + std::to_string(view.getRank()) + " of " + elementText(view.getElement());
}

} // namespace tilewright
