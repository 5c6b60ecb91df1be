#include "compiler/dsl/access.h"

using namespace mlir;

namespace tilewright {

using Impl = KernelBuilder::Impl;

static const char *axisName(Axis axis) { return axis == Axis::rows ? "rows" : "columns"; }

static bool hasRank(Impl &impl, Value view, unsigned rank, const char *operation, const char *hint) {
  auto type = llvm::cast<tile::ViewType>(view.getType());
  if (type.getRank() == rank) return true;
  impl.fail(operation,
            "expected a view of rank " + std::to_string(rank) + ", found a " + describe(type) + "; " + hint);
  return false;
}

// Appends `range` to the block as the offset along the view's next axis.
static bool addRange(Impl &impl, Block &block, const Range &range, const char *operation) {
  Value begin = impl.use(range.begin, operation);
  if (!begin) return false;
  block.offsets.push_back(begin);
  if (range.extent != kWhole) {
    (range.axis == Axis::rows ? block.shape.rows : block.shape.columns) = range.extent;
    if (range.extent >= 1) return true;
    impl.fail(operation, "expected a range of at least one position, found " + std::to_string(range.extent));
    return false;
  }
  if (range.axis == Axis::rows) {
    impl.fail(operation,
              "expected a known number of rows, found a whole range along rows; only columns may be whole");
    return false;
  }
  block.shape.columns = ShapedType::kDynamic;
  block.shape.width = impl.use(range.wholeSize, operation);
  return bool(block.shape.width);
}

static bool runsAlong(Impl &impl, const Range &range, Axis axis, const char *operation) {
  if (range.axis == axis) return true;
  impl.fail(operation, std::string("expected a range along ") + axisName(axis) + ", found one along " +
                           axisName(range.axis) + "; see Range::along");
  return false;
}

std::optional<Block> vectorBlock(Impl &impl, const View &view, const Range &range, const char *operation) {
  Block block{impl.use(view, operation), {}, {}};
  if (!block.view || !hasRank(impl, block.view, 1, operation, "give rows and columns")) return {};
  impl.bodyBegan = true;
  if (!addRange(impl, block, range, operation)) return {};
  return block;
}

std::optional<Block> matrixBlock(Impl &impl, const View &view, const Range &rows, const Range &columns,
                                 const char *operation) {
  Block block{impl.use(view, operation), {}, {}};
  if (!block.view || !hasRank(impl, block.view, 2, operation, "give one range")) return {};
  impl.bodyBegan = true;
  if (!runsAlong(impl, rows, Axis::rows, operation) || !runsAlong(impl, columns, Axis::columns, operation))
    return {};
  if (!addRange(impl, block, rows, operation) || !addRange(impl, block, columns, operation)) return {};
  return block;
}

std::optional<NumberedRows> numberedRows(Impl &impl, const View &view, const Tile &index,
                                         const Range *columns, const char *operation) {
  Block block{impl.use(view, operation), {}, {}};
  Value numbers = impl.use(index, operation);
  if (!block.view || !numbers) return {};
  if (!hasRank(impl, block.view, columns ? 2 : 1, operation,
               columns ? "leave the columns out" : "give the columns"))
    return {};
  impl.bodyBegan = true;
  block.shape.rows = tile::rowsOf(numbers.getType());
  numbers = impl.useColumn(index, operation, block.shape.rows);
  if (!numbers) return {};
  if (columns &&
      (!runsAlong(impl, *columns, Axis::columns, operation) || !addRange(impl, block, *columns, operation)))
    return {};
  return NumberedRows{numbers, block};
}

} // namespace tilewright
