#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"

#include "compiler/dialect/tile_ops.h"

#include "compiler/dialect/tile_enums.cpp.inc"

using namespace mlir;

// custom<View>: `!tile.view<…>` in full, where the default format would leave the mnemonic out.
static ParseResult parseView(OpAsmParser &parser, Type &type) { return parser.parseType(type); }
static void printView(OpAsmPrinter &printer, Operation *, Type type) { printer << type; }

#define GET_OP_CLASSES
#include "compiler/dialect/tile_ops.cpp.inc"

namespace tilewright::tile {

// ---------------------------------------------------------------------------------------------------------------------
// What several operations verify
// ---------------------------------------------------------------------------------------------------------------------

static LogicalResult verifyAxisOf(Operation *op, ViewType view, uint64_t axis) {
  if (axis < view.getRank()) return success();
  return op->emitOpError() << "expected an axis of " << view << ", found " << axis;
}

static LogicalResult verifySameElement(Operation *op, ViewType view, Type tile) {
  if (elementOf(tile) == view.getElement()) return success();
  return op->emitOpError() << "expected a tile of " << view.getElement() << ", as " << view
                           << " holds, found " << tile;
}

// A block at one offset for each of the view's dimensions.
static LogicalResult verifyBlock(Operation *op, ViewType view, size_t offsets, Type tile) {
  if (offsets != view.getRank())
    return op->emitOpError() << "expected " << view.getRank() << " offsets into " << view << ", found "
                             << offsets;
  if (view.getRank() == 1 && rowsOf(tile) != 1 && columnsOf(tile) != 1)
    return op->emitOpError() << "expected a block of a vector to have one row or one column, found " << tile;
  return verifySameElement(op, view, tile);
}

// Rows numbered by a column of indices.
static LogicalResult verifyRows(Operation *op, ViewType view, Value rows, bool hasColumn, Type tile) {
  if (hasColumn != (view.getRank() == 2))
    return op->emitOpError() << "expected "
                             << (view.getRank() == 2 ? "rows and a column offset" : "rows only")
                             << " as subscripts of " << view << ", found "
                             << (hasColumn ? "rows and a column offset" : "rows only");
  if (view.getRank() == 1 && columnsOf(tile) != 1)
    return op->emitOpError() << "expected rows of a vector to have one column, found " << tile;
  if (rowsOf(rows.getType()) != rowsOf(tile))
    return op->emitOpError() << "expected one row number for each row of " << tile << ", found "
                             << rows.getType();
  return verifySameElement(op, view, tile);
}

// `size` is there exactly when nothing else tells the width of a long result.
static LogicalResult verifySize(Operation *op, bool needed, Value size) {
  if (needed == bool(size)) return success();
  return op->emitOpError() << (needed ? "expected 'size' for a result with ? columns, found none"
                                      : "expected no 'size' where the result's width is known, found one");
}

static RankedTensorType tileOf(int64_t rows, int64_t columns, Type element) {
  return RankedTensorType::get({rows, columns}, element);
}

// Inference runs before operands are verified, so it checks what it relies on.
static LogicalResult expectTile(std::optional<Location> location, StringRef op, Value value) {
  if (isTile(value.getType())) return success();
  return emitOptionalError(location, "'tile.", op, "' op expected a tile, found ", value.getType());
}

// ---------------------------------------------------------------------------------------------------------------------
// Programs and views
// ---------------------------------------------------------------------------------------------------------------------

LogicalResult DimOp::verify() { return verifyAxisOf(*this, getView().getType(), getAxis()); }

// dim(narrow(v, axis, n), other) = dim(v, other)        dim(reinterpret(v : matrix), 0) = dim(v, 0)
OpFoldResult DimOp::fold(FoldAdaptor) {
  Value view = withSameSize(getView(), getAxis());
  if (view == getView()) return {};
  getViewMutable().assign(view);
  return getResult();
}

LogicalResult NarrowOp::verify() { return verifyAxisOf(*this, getView().getType(), getAxis()); }

LogicalResult ReinterpretOp::verify() {
  ViewType from = getView().getType(), to = getResult().getType();
  if (from.getRank() == to.getRank()) return success();
  return emitOpError() << "expected a result of rank " << from.getRank() << ", as " << from << ", found "
                       << to;
}

// reinterpret(v : T) : T = v
OpFoldResult ReinterpretOp::fold(FoldAdaptor) {
  return getView().getType() == getResult().getType() ? getView() : Value();
}

Value withSameSize(Value view, uint64_t axis) {
  while (true) {
    if (auto narrow = view.getDefiningOp<NarrowOp>(); narrow && narrow.getAxis() != axis)
      view = narrow.getView();
    else if (auto whole = view.getDefiningOp<ReinterpretOp>(); whole && axis + 1 < whole.getType().getRank())
      view = whole.getView();
    else
      return view;
  }
}

Value rootOf(Value view) {
  while (isa_and_nonnull<NarrowOp, ReinterpretOp>(view.getDefiningOp()))
    view = view.getDefiningOp()->getOperand(0);
  return view;
}

/// What stands before the places of a load or store: the view, and of a store the value.
static unsigned operandsBeforePlaces(Operation *access) { return access->getNumResults() ? 1 : 2; }

Value viewOf(Operation *access) { return access->getOperand(operandsBeforePlaces(access) - 1); }

static OperandRange placesOf(Operation *access) {
  return access->getOperands().drop_front(operandsBeforePlaces(access));
}

Value tileOf(Operation *access) {
  return access->getNumResults() ? access->getResult(0) : access->getOperand(0);
}

/// Whether constants say that two blocks at offsets into views of one type do not overlap.
static bool lieApart(Operation *a, Operation *b) {
  const auto extentOf = [](Operation *op, size_t axis) {
    RankedTensorType tile = tileType(tileOf(op));
    return placesOf(op).size() == 1 ? tile.getNumElements() : tile.getDimSize(axis);
  };
  for (auto [axis, places] : llvm::enumerate(llvm::zip(placesOf(a), placesOf(b)))) {
    const auto x = getConstantIntValue(std::get<0>(places));
    const auto y = getConstantIntValue(std::get<1>(places));
    if (x && y && (*x + extentOf(a, axis) <= *y || *y + extentOf(b, axis) <= *x)) return true;
  }
  return false;
}

bool touchOtherPlaces(Operation *a, Operation *b) {
  if (rootOf(viewOf(a)) != rootOf(viewOf(b))) return false;
  const auto elementOf = [](Operation *op) { return cast<ViewType>(viewOf(op).getType()).getElement(); };
  if (elementOf(a) != elementOf(b)) return true;
  const auto isBlock = [](Operation *op) { return isa<LoadOp, StoreOp, ReduceAddOp>(op); };
  const auto isLong = [](Operation *op) { return tile::isLong(tileOf(op).getType()); };
  if (isBlock(a) && isBlock(b) && !isLong(a) && !isLong(b) && lieApart(a, b)) return false;
  const bool picksElements = isa<LoadElementsOp>(a) || isa<LoadElementsOp>(b);
  return picksElements || isBlock(a) != isBlock(b) || !llvm::equal(placesOf(a), placesOf(b));
}

// ---------------------------------------------------------------------------------------------------------------------
// Memory
// ---------------------------------------------------------------------------------------------------------------------

LogicalResult OnChipOp::verify() {
  if (getResult().getType().getRank() == 1) return success();
  return emitOpError("expected a vector, found ") << getResult().getType();
}

LogicalResult ExchangeOp::verify() {
  for (auto [value, place] : llvm::zip(getValues(), getPlaces())) {
    auto view = cast<ViewType>(place.getType());
    if (view.getRank() != 1 || view.getElement() != elementOf(value.getType()))
      return emitOpError("expected a vector of ") << elementOf(value.getType()) << ", found " << view;
    if (!place.getDefiningOp<OnChipOp>()) return emitOpError("expected places that are on chip");
  }
  return success();
}

LogicalResult LoadOp::verify() {
  if (failed(verifySize(*this, isLong(getResult().getType()), getSize()))) return failure();
  return verifyBlock(*this, getView().getType(), getOffsets().size(), getResult().getType());
}

LogicalResult LoadRowsOp::verify() {
  if (failed(verifySize(*this, isLong(getResult().getType()), getSize()))) return failure();
  return verifyRows(*this, getView().getType(), getRows(), bool(getColumn()), getResult().getType());
}

LogicalResult LoadElementsOp::verify() {
  if (getView().getType().getRank() != 2)
    return emitOpError() << "expected a view of rank 2, found " << getView().getType();
  if (rowsOf(getColumns().getType()) != rowsOf(getResult().getType()))
    return emitOpError() << "expected one column number for each row of " << getResult().getType()
                         << ", found " << getColumns().getType();
  return verifySameElement(*this, getView().getType(), getResult().getType());
}

LogicalResult StoreOp::verify() {
  return verifyBlock(*this, getView().getType(), getOffsets().size(), getValue().getType());
}

LogicalResult StoreRowsOp::verify() {
  return verifyRows(*this, getView().getType(), getRows(), bool(getColumn()), getValue().getType());
}

LogicalResult ReduceAddOp::verify() {
  return verifyBlock(*this, getView().getType(), getOffsets().size(), getValue().getType());
}

// ---------------------------------------------------------------------------------------------------------------------
// Products
// ---------------------------------------------------------------------------------------------------------------------

LogicalResult ContractOp::verify() {
  for (ViewType view : {getA().getType(), getB().getType()})
    if (view.getRank() != 2 || !isa<FloatType>(view.getElement()))
      return emitOpError() << "expected views of rank 2 of f32, bf16 or f16, found " << view;
  if (isLong(getResult().getType()))
    return emitOpError() << "expected a static tile as the result, found " << getResult().getType();
  if (getParts() > 1 && !getPart()) return emitOpError() << "expected which part of " << getParts();
  return success();
}

LogicalResult DotOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location, Adaptor adaptor,
                                      SmallVectorImpl<Type> &results) {
  for (Value operand : {adaptor.getA(), adaptor.getB()})
    if (failed(expectTile(location, "dot", operand))) return failure();
  RankedTensorType a = tileType(adaptor.getA()), b = tileType(adaptor.getB());
  if (!a.hasStaticShape() || !b.hasStaticShape() || columnsOf(a) != rowsOf(b))
    return emitOptionalError(location, "'tile.dot' op expected static tiles MxK and KxN, found ", a, " and ",
                             b);
  results.push_back(tileOf(rowsOf(a), columnsOf(b), Float32Type::get(context)));
  return success();
}

/// What was widened to fp32 for an operand, perhaps before it was transposed; null where nothing was.
static arith::ExtFOp wideningOf(Value operand) {
  if (auto transpose = operand.getDefiningOp<TransposeOp>()) operand = transpose.getValue();
  return operand.getDefiningOp<arith::ExtFOp>();
}

/// The operand as it was before it was widened.
static Value narrowOperand(Value operand, PatternRewriter &rewriter) {
  Value narrow = wideningOf(operand).getIn();
  if (!operand.getDefiningOp<TransposeOp>()) return narrow;
  return rewriter.create<TransposeOp>(operand.getLoc(), narrow);
}

LogicalResult DotOp::canonicalize(DotOp op, PatternRewriter &rewriter) {
  arith::ExtFOp a = wideningOf(op.getA()), b = wideningOf(op.getB());
  if (!a || !b || elementOf(a.getIn().getType()) != elementOf(b.getIn().getType())) return failure();
  Value left = narrowOperand(op.getA(), rewriter), right = narrowOperand(op.getB(), rewriter);
  rewriter.replaceOpWithNewOp<DotOp>(op, left, right);
  return success();
}

// ---------------------------------------------------------------------------------------------------------------------
// Shapes
// ---------------------------------------------------------------------------------------------------------------------

LogicalResult IotaOp::verify() {
  Type result = getResult().getType();
  int64_t across = getAxis() == 0 ? columnsOf(result) : rowsOf(result);
  if (across != 1 || !elementOf(result).isInteger(32))
    return emitOpError() << "expected "
                         << (getAxis() == 0 ? "tensor<Rx1xi32> along 0" : "tensor<1xCxi32> along 1")
                         << ", found " << result;
  return verifySize(*this, isLong(result), getSize());
}

LogicalResult BroadcastOp::verify() {
  RankedTensorType from = getValue().getType(), to = getResult().getType();
  auto grows = [](int64_t size, int64_t target) { return size == 1 || size == target; };
  if (from.getElementType() != to.getElementType() || !grows(rowsOf(from), rowsOf(to)) ||
      !grows(columnsOf(from), columnsOf(to)))
    return emitOpError() << "expected dimensions of size 1 to grow and nothing else to change, found " << from
                         << " to " << to;
  return verifySize(*this, isLong(to) && !isLong(from), getSize());
}

// broadcast(x : T) : T = x        broadcast(broadcast(x)) = broadcast(x)
OpFoldResult BroadcastOp::fold(FoldAdaptor) {
  if (getValue().getType() == getResult().getType()) return getValue();
  auto inner = getValue().getDefiningOp<BroadcastOp>();
  if (!inner) return {};
  Value size = getSize() ? getSize() : inner.getSize();
  getValueMutable().assign(inner.getValue());
  getSizeMutable().assign(size ? ValueRange(size) : ValueRange());
  return getResult();
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                            SmallVectorImpl<Type> &results) {
  if (failed(expectTile(location, "transpose", adaptor.getValue()))) return failure();
  RankedTensorType type = tileType(adaptor.getValue());
  if (!type.hasStaticShape())
    return emitOptionalError(location, "'tile.transpose' op expected a static tile, found ", type);
  results.push_back(tileOf(columnsOf(type), rowsOf(type), type.getElementType()));
  return success();
}

// transpose(transpose(x)) = x        transpose(x : 1x1) = x
OpFoldResult TransposeOp::fold(FoldAdaptor) {
  if (isScalarTile(getValue().getType())) return getValue();
  if (auto inner = getValue().getDefiningOp<TransposeOp>()) return inner.getValue();
  return {};
}

// What a scalar becomes as a tile, and the other way round.
static bool scalarFits(Type scalar, Type element) {
  if (scalar.isIndex()) return element.isInteger(32) || element.isInteger(64);
  return scalar == element;
}

LogicalResult SplatOp::verify() {
  if (scalarFits(getScalar().getType(), elementOf(getResult().getType()))) return success();
  return emitOpError() << "expected f32 to f32, i1 to i1 or index to i32 or i64, found "
                       << getScalar().getType() << " to " << getResult().getType();
}

LogicalResult ExtractOp::inferReturnTypes(MLIRContext *context, std::optional<Location> location,
                                          Adaptor adaptor, SmallVectorImpl<Type> &results) {
  Type type = adaptor.getValue().getType();
  if (!isScalarTile(type))
    return emitOptionalError(location, "'tile.extract' op expected a 1x1 tile of f32, i64, i32 or i1, found ",
                             type);
  Type element = elementOf(type);
  bool isIndex = element.isInteger(32) || element.isInteger(64);
  results.push_back(isIndex ? IndexType::get(context) : element);
  return success();
}

// ---------------------------------------------------------------------------------------------------------------------
// Rows
// ---------------------------------------------------------------------------------------------------------------------

LogicalResult ReduceOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                         SmallVectorImpl<Type> &results) {
  if (failed(expectTile(location, "reduce", adaptor.getValue()))) return failure();
  RankedTensorType type = tileType(adaptor.getValue());
  bool alongRow = adaptor.getAxis() == 1;
  results.push_back(
      tileOf(alongRow ? rowsOf(type) : 1, alongRow ? 1 : columnsOf(type), type.getElementType()));
  return success();
}

LogicalResult GatherOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                         SmallVectorImpl<Type> &results) {
  for (Value operand : {adaptor.getValue(), adaptor.getIndex()})
    if (failed(expectTile(location, "gather", operand))) return failure();
  Type value = adaptor.getValue().getType(), index = adaptor.getIndex().getType();
  if (rowsOf(value) != rowsOf(index))
    return emitOptionalError(location, "'tile.gather' op expected one index for each row of ", value,
                             ", found ", index);
  results.push_back(tileOf(rowsOf(value), 1, elementOf(value)));
  return success();
}

LogicalResult ScatterOp::verify() {
  Type value = getValue().getType(), index = getIndex().getType(), result = getResult().getType();
  if (rowsOf(value) != rowsOf(result) || rowsOf(index) != rowsOf(result) ||
      elementOf(value) != elementOf(result))
    return emitOpError() << "expected a value and an index for each row of " << result << ", found " << value
                         << " and " << index;
  return verifySize(*this, isLong(result), getSize());
}

LogicalResult MaxSumExpOp::inferReturnTypes(MLIRContext *, std::optional<Location> location, Adaptor adaptor,
                                            SmallVectorImpl<Type> &results) {
  if (failed(expectTile(location, "max_sum_exp", adaptor.getValue()))) return failure();
  RankedTensorType type = tileType(adaptor.getValue());
  results.append(2, tileOf(rowsOf(type), 1, type.getElementType()));
  return success();
}

} // namespace tilewright::tile
