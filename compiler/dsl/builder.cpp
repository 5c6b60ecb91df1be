#include "compiler/dsl/builder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include "compiler/dsl/access.h"

using namespace mlir;

namespace tilewright {

using Impl = KernelBuilder::Impl;

// -----------------------------------------------------------------------------------------------------------
// Parameters
// -----------------------------------------------------------------------------------------------------------

static std::string checkParameter(Impl &impl, const std::string &name) {
  if (impl.bodyBegan) return "expected parameters before the kernel's body, found one after it began";
  if (!isIdentifier(name)) return "expected a name of letters, digits and _, found '" + name + "'";
  for (unsigned i = 0; i < impl.function.getNumArguments(); ++i)
    if (impl.function.getArgAttrOfType<StringAttr>(i, tile::kNameAttr) == name)
      return "expected a name of its own for each parameter, found '" + name + "' twice";
  return "";
}

// Null after an error.
static Value addParameter(Impl &impl, const std::string &name, Type type, bool written = false) {
  if (!impl.status.ok()) return {};
  std::string mistake = checkParameter(impl, name);
  if (!mistake.empty()) {
    impl.fail("parameter '" + name + "'", mistake);
    return {};
  }
  SmallVector<NamedAttribute> attributes{
      impl.builder.getNamedAttr(tile::kNameAttr, impl.builder.getStringAttr(name))};
  if (written)
    attributes.push_back(impl.builder.getNamedAttr(tile::kWrittenAttr, impl.builder.getUnitAttr()));
  unsigned position = impl.function.getNumArguments();
  impl.function.insertArgument(position, type, impl.builder.getDictionaryAttr(attributes), impl.location);
  return impl.function.getArgument(position);
}

static View addView(Impl &impl, const std::string &name, ElementType element, int rank, bool written) {
  if (rank != 1 && rank != 2) {
    impl.fail("parameter '" + name + "'", "expected rank 1 or 2, found " + std::to_string(rank));
    return {&impl.handle, nullptr};
  }
  Type type = tile::ViewType::get(impl.builder.getContext(), unsigned(rank), impl.mlirType(element));
  Value view = addParameter(impl, name, type, written);
  return view ? impl.wrapView(view) : View(&impl.handle, nullptr);
}

View KernelBuilder::input(const std::string &name, ElementType element, int rank) {
  return addView(impl_, name, element, rank, false);
}

View KernelBuilder::output(const std::string &name, ElementType element, int rank) {
  return addView(impl_, name, element, rank, true);
}

Index KernelBuilder::index(const std::string &name) {
  Value value = addParameter(impl_, name, impl_.builder.getIndexType());
  return value ? impl_.wrapIndex(value) : impl_.noIndex();
}

Tile KernelBuilder::scalar(const std::string &name) {
  Value value = addParameter(impl_, name, impl_.builder.getF32Type());
  if (!value) return impl_.noTile();
  return impl_.wrapTile(impl_.create<tile::SplatOp>(RankedTensorType::get({1, 1}, value.getType()), value));
}

// -----------------------------------------------------------------------------------------------------------
// The grid
// -----------------------------------------------------------------------------------------------------------

// Where a launch finds `size`, so that it can count the programs.
static std::optional<GridAxis> gridAxis(Impl &impl, const Index &size, int64_t block) {
  Value value = impl.use(size, "block");
  if (!value) return {};
  if (block < 1) {
    impl.fail("block", "expected at least one position, found " + std::to_string(block));
    return {};
  }
  if (auto dim = value.getDefiningOp<tile::DimOp>())
    if (auto view = llvm::dyn_cast<BlockArgument>(tile::withSameSize(dim.getView(), dim.getAxis())))
      return GridAxis{int(view.getArgNumber()), int(dim.getAxis()), block};
  auto parameter = llvm::dyn_cast<BlockArgument>(value);
  if (parameter && parameter.getOwner() == &impl.function.front())
    return GridAxis{int(parameter.getArgNumber()), 0, block};
  impl.fail("block",
            "expected a dim of a view parameter or an index parameter as the size, found a computed one; "
            "a launch counts its programs from its arguments");
  return {};
}

// Appends a grid axis and gives this program's range of it.
static Range addGridAxis(Impl &impl, const Index &size, int64_t block, Axis axis) {
  Range range{axis, impl.noIndex(), block, impl.noIndex()};
  auto gridAxisOfSize = gridAxis(impl, size, block);
  if (!gridAxisOfSize) return range;
  Value program = impl.create<tile::ProgramIdOp>(impl.builder.getIndexType(), uint64_t(impl.grid.size()));
  impl.grid.push_back(*gridAxisOfSize);
  range.begin = impl.wrapIndex(impl.create<arith::MulIOp>(program, impl.constantIndex(block)));
  return range;
}

static void beginGrid(Impl &impl) {
  if (impl.hasGrid)
    impl.fail("block", "expected one call of block, blockRows or blockColumns, found a second");
  impl.hasGrid = impl.bodyBegan = true;
}

Range KernelBuilder::blockRows(const Index &size, int64_t rows) {
  beginGrid(impl_);
  return addGridAxis(impl_, size, rows, Axis::rows);
}

Range KernelBuilder::blockColumns(const Index &size, int64_t columns) {
  beginGrid(impl_);
  return addGridAxis(impl_, size, columns, Axis::columns);
}

std::pair<Range, Range> KernelBuilder::block(const Index &rowsSize, const Index &columnsSize, int64_t rows,
                                             int64_t columns) {
  beginGrid(impl_);
  Range first = addGridAxis(impl_, rowsSize, rows, Axis::rows);
  return {first, addGridAxis(impl_, columnsSize, columns, Axis::columns)};
}

Index KernelBuilder::programId(int axis) {
  impl_.bodyBegan = true;
  if (axis < 0 || axis > 2)
    impl_.fail("programId", "expected an axis of 0 to 2, found " + std::to_string(axis));
  if (!impl_.status.ok()) return impl_.noIndex();
  return impl_.wrapIndex(impl_.create<tile::ProgramIdOp>(impl_.builder.getIndexType(), uint64_t(axis)));
}

Range KernelBuilder::whole(const Index &size) { return {Axis::columns, constant(0), kWhole, size}; }

Range KernelBuilder::range(Axis axis, const Index &begin, int64_t extent) {
  if (extent < 1) impl_.fail("range", "expected at least one position, found " + std::to_string(extent));
  return {axis, begin, extent, impl_.noIndex()};
}

// -----------------------------------------------------------------------------------------------------------
// Scalars
// -----------------------------------------------------------------------------------------------------------

Index KernelBuilder::constant(int64_t value) {
  return impl_.status.ok() ? impl_.wrapIndex(impl_.constantIndex(value)) : impl_.noIndex();
}

// The value of a 1×1 tile of such elements; null after an error.
static Value extract(Impl &impl, const Tile &tile, const char *operation, const char *expected,
                     llvm::function_ref<bool(Type)> accepts) {
  Value value = impl.useTile(tile, operation, expected, accepts);
  if (!value) return {};
  if (tile::rowsOf(value.getType()) == 1 && tile::columnsOf(value.getType()) == 1)
    return impl.create<tile::ExtractOp>(value);
  impl.fail(operation, "expected a 1x1 tile, found " + describe(value.getType()));
  return {};
}

Index KernelBuilder::toIndex(const Tile &tile) {
  Value value = extract(impl_, tile, "toIndex", "i32 or i64",
                        [](Type element) { return element.isInteger(32) || element.isInteger(64); });
  return value ? impl_.wrapIndex(value) : impl_.noIndex();
}

Condition KernelBuilder::toCondition(const Tile &tile) {
  Value value =
      extract(impl_, tile, "toCondition", "truth values", [](Type element) { return element.isInteger(1); });
  return value ? impl_.wrapCondition(value) : Condition(this, nullptr);
}

Tile KernelBuilder::toTile(const Index &index, ElementType element) {
  Value value = impl_.use(index, "toTile");
  if (!value) return impl_.noTile();
  if (element != ElementType::i32 && element != ElementType::i64) {
    impl_.fail("toTile",
               std::string("expected i32 or i64, found ") + elementName(element) + "; cast the tile after");
    return impl_.noTile();
  }
  return impl_.wrapTile(
      impl_.create<tile::SplatOp>(RankedTensorType::get({1, 1}, impl_.mlirType(element)), value));
}

// -----------------------------------------------------------------------------------------------------------
// Stores
// -----------------------------------------------------------------------------------------------------------

static bool isWritten(Impl &impl, Value view, const char *operation) {
  auto parameter = llvm::cast<BlockArgument>(tile::rootOf(view));
  if (impl.function.getArgAttr(parameter.getArgNumber(), tile::kWrittenAttr)) return true;
  auto name = impl.function.getArgAttrOfType<StringAttr>(parameter.getArgNumber(), tile::kNameAttr);
  impl.fail(operation, "expected a view that is an output, found input '" + name.str() + "'");
  return false;
}

// `tile` as it lies in the block: broadcast to its shape, in its view's elements. Null after an error.
static Value valueFor(Impl &impl, const Block &block, const Tile &tile, const char *operation) {
  Value value = impl.use(tile, operation);
  if (!value || !isWritten(impl, block.view, operation)) return {};
  if (!impl.broadcastsTo(value, block.shape)) {
    impl.fail(operation, "expected a tile that broadcasts to " + describe(block.shape) + ", found " +
                             describe(value.getType()));
    return {};
  }
  value = impl.asElementsOf(value, llvm::cast<tile::ViewType>(block.view.getType()), operation);
  return value ? impl.broadcastTo(value, block.shape) : Value();
}

static void storeBlock(Impl &impl, const std::optional<Block> &block, const Tile &tile) {
  if (!block) return;
  if (Value value = valueFor(impl, *block, tile, "store"))
    impl.create<tile::StoreOp>(value, block->view, block->offsets);
}

void KernelBuilder::store(const View &view, const Range &range, const Tile &tile) {
  storeBlock(impl_, vectorBlock(impl_, view, range, "store"), tile);
}

void KernelBuilder::store(const View &view, const Range &rows, const Range &columns, const Tile &tile) {
  storeBlock(impl_, matrixBlock(impl_, view, rows, columns, "store"), tile);
}

void KernelBuilder::add(const View &view, const Range &rows, const Range &columns, const Tile &tile) {
  auto block = matrixBlock(impl_, view, rows, columns, "add");
  if (!block) return;
  auto type = llvm::cast<tile::ViewType>(block->view.getType());
  if (type.getElement().isBF16() || type.getElement().isF16()) {
    impl_.fail("add", "expected a view of f32, i32 or i64, found a " + describe(type) +
                          "; a sum of many parts needs more digits");
    return;
  }
  if (Value value = valueFor(impl_, *block, tile, "add"))
    impl_.create<tile::ReduceAddOp>(value, block->view, block->offsets);
}

static void scatterRows(Impl &impl, const std::optional<NumberedRows> &rows, const Tile &tile) {
  if (!rows) return;
  Value value = valueFor(impl, rows->block, tile, "scatter");
  if (!value) return;
  Value column = rows->block.offsets.empty() ? Value() : rows->block.offsets[0];
  impl.create<tile::StoreRowsOp>(value, rows->block.view, rows->index, column);
}

void KernelBuilder::scatter(const View &view, const Tile &index, const Tile &tile) {
  scatterRows(impl_, numberedRows(impl_, view, index, nullptr, "scatter"), tile);
}

void KernelBuilder::scatter(const View &view, const Tile &index, const Range &columns, const Tile &tile) {
  scatterRows(impl_, numberedRows(impl_, view, index, &columns, "scatter"), tile);
}

// -----------------------------------------------------------------------------------------------------------
// Control flow
// -----------------------------------------------------------------------------------------------------------

void KernelBuilder::ifThen(const Condition &condition, const std::function<void()> &body) {
  impl_.bodyBegan = true;
  Value guard = impl_.use(condition, "ifThen");
  if (!guard) return;
  auto branch = impl_.create<scf::IfOp>(guard, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard restore(impl_.builder);
  impl_.builder.setInsertionPointToStart(branch.thenBlock());
  body();
}

// The tiles' values; empty, with the error recorded, when one is not a tile of known shape.
static SmallVector<Value> carriedValues(Impl &impl, const std::vector<Tile> &tiles) {
  SmallVector<Value> values;
  for (const Tile &tile : tiles) {
    Value value = impl.use(tile, "forRange");
    if (!value) return {};
    if (tile::isLong(value.getType())) {
      impl.fail("forRange", "expected carried tiles of known shape, found " + describe(value.getType()));
      return {};
    }
    values.push_back(value);
  }
  return values;
}

static std::vector<Tile> wrapAll(Impl &impl, ValueRange values) {
  std::vector<Tile> tiles;
  for (Value value : values)
    tiles.push_back(impl.wrapTile(value));
  return tiles;
}

// Ends the loop with what its body returned, if that has the types of what it was given.
static void yield(Impl &impl, ValueRange given, const std::vector<Tile> &returned) {
  if (impl.status.ok() && returned.size() != given.size())
    impl.fail("forRange", "expected the body to return " + std::to_string(given.size()) + " tiles, found " +
                              std::to_string(returned.size()));
  SmallVector<Value> values = carriedValues(impl, returned);
  if (!impl.status.ok()) return;
  for (auto [i, value] : llvm::enumerate(values))
    if (value.getType() != given[i].getType())
      impl.fail("forRange", "expected carried tile " + std::to_string(i) + " to stay " +
                                describe(given[i].getType()) + ", found " + describe(value.getType()));
  impl.create<scf::YieldOp>(values);
}

std::vector<Tile>
KernelBuilder::forRange(const Index &begin, const Index &end, int64_t step, const std::vector<Tile> &carried,
                        const std::function<std::vector<Tile>(Index, const std::vector<Tile> &)> &body) {
  impl_.bodyBegan = true;
  if (step < 1) impl_.fail("forRange", "expected a step of at least 1, found " + std::to_string(step));
  Value first = impl_.use(begin, "forRange"), last = impl_.use(end, "forRange");
  SmallVector<Value> initial = carriedValues(impl_, carried);
  if (!impl_.status.ok()) return std::vector<Tile>(carried.size(), impl_.noTile());
  // With a body builder, so that the loop does not add a yield of its own.
  auto empty = [](OpBuilder &, Location, Value, ValueRange) {};
  auto loop = impl_.create<scf::ForOp>(first, last, impl_.constantIndex(step), initial, empty);
  {
    OpBuilder::InsertionGuard restore(impl_.builder);
    impl_.builder.setInsertionPointToStart(loop.getBody());
    ValueRange given = loop.getRegionIterArgs();
    yield(impl_, given, body(impl_.wrapIndex(loop.getInductionVar()), wrapAll(impl_, given)));
  }
  return wrapAll(impl_, loop.getResults());
}

} // namespace tilewright
