// Ranges and what is read from views.

#include "compiler/dialect/kernel_signature.h"
#include "compiler/dsl/access.h"

using namespace mlir;

namespace tilewright {

using Impl = KernelBuilder::Impl;

Tile Range::positions() const {
  Impl *impl = implOf({&begin});
  if (!impl) return {};
  Value first = impl->use(begin, "positions");
  Value size = first && extent == kWhole ? impl->use(wholeSize, "positions") : Value();
  if (!first || (extent == kWhole && !size)) return impl->noTile();
  bool isRow = axis == Axis::columns;
  if (extent != kWhole ? extent < 1 : !isRow) {
    impl->fail("positions", extent == kWhole ? "expected a whole range along columns, found one along rows"
                                             : "expected a range of at least one position, found " +
                                                   std::to_string(extent));
    return impl->noTile();
  }
  int64_t count = size ? ShapedType::kDynamic : extent;
  auto type = RankedTensorType::get({isRow ? 1 : count, isRow ? count : 1}, impl->builder.getI32Type());
  return impl->wrapTile(impl->create<tile::IotaOp>(type, first, isRow ? 1 : 0, size), size);
}

Range Range::along(Axis other) const {
  Range range = *this;
  range.axis = other;
  return range;
}

int View::rank() const { return valid() ? int(builder()->impl().viewType(*this).getRank()) : 0; }

ElementType View::element() const {
  if (!valid()) return ElementType::f32;
  return tile::elementType(builder()->impl().viewType(*this).getElement());
}

static bool isAxisOf(Impl &impl, const View &view, int axis, const char *operation) {
  if (axis >= 0 && axis < view.rank()) return true;
  impl.fail(operation,
            "expected an axis of a " + describe(impl.viewType(view)) + ", found " + std::to_string(axis));
  return false;
}

Index View::dim(int axis) const {
  Impl *impl = implOf({this});
  if (!impl) return {};
  Value view = impl->use(*this, "dim");
  if (!view || !isAxisOf(*impl, *this, axis, "dim")) return impl->noIndex();
  return impl->wrapIndex(impl->create<tile::DimOp>(view, axis));
}

View View::narrowed(int axis, const Index &size) const {
  Impl *impl = implOf({this, &size});
  if (!impl) return {};
  Value view = impl->use(*this, "narrowed"), count = impl->use(size, "narrowed");
  if (!view || !count || !isAxisOf(*impl, *this, axis, "narrowed")) return {&impl->handle, nullptr};
  return impl->wrapView(impl->create<tile::NarrowOp>(view, axis, count));
}

View View::as(ElementType element) const {
  Impl *impl = implOf({this});
  if (!impl) return {};
  Value view = impl->use(*this, "as");
  if (!view) return {&impl->handle, nullptr};
  auto type = tile::ViewType::get(impl->builder.getContext(), impl->viewType(*this).getRank(),
                                  impl->mlirType(element));
  return impl->wrapView(impl->create<tile::ReinterpretOp>(type, view));
}

static Tile load(Impl &impl, const std::optional<Block> &block) {
  if (!block) return impl.noTile();
  auto type = RankedTensorType::get({block->shape.rows, block->shape.columns},
                                    llvm::cast<tile::ViewType>(block->view.getType()).getElement());
  Value loaded = impl.create<tile::LoadOp>(type, block->view, block->offsets, block->shape.width);
  return impl.wrapTile(impl.widened(loaded), block->shape.width);
}

static Tile loadRows(Impl &impl, const std::optional<NumberedRows> &rows, bool isSparse = false) {
  if (!rows) return impl.noTile();
  const Block &block = rows->block;
  auto type = RankedTensorType::get({block.shape.rows, block.shape.columns},
                                    llvm::cast<tile::ViewType>(block.view.getType()).getElement());
  Value column = block.offsets.empty() ? Value() : block.offsets[0];
  Value loaded = impl.create<tile::LoadRowsOp>(type, block.view, rows->index, column, block.shape.width);
  if (isSparse) loaded.getDefiningOp()->setAttr(tile::kSparseRowsAttr, impl.builder.getUnitAttr());
  return impl.wrapTile(impl.widened(loaded), block.shape.width);
}

Tile View::operator[](const Range &range) const {
  Impl *impl = implOf({this, &range.begin});
  return impl ? load(*impl, vectorBlock(*impl, *this, range, "operator[]")) : Tile();
}

Tile View::at(const Range &rows, const Range &columns) const {
  Impl *impl = implOf({this, &rows.begin, &columns.begin});
  return impl ? load(*impl, matrixBlock(*impl, *this, rows, columns, "at")) : Tile();
}

Tile View::gather(const Tile &index) const {
  Impl *impl = implOf({this, &index});
  return impl ? loadRows(*impl, numberedRows(*impl, *this, index, nullptr, "gather")) : Tile();
}

Tile View::gather(const Tile &index, const Range &columns, bool isSparse) const {
  Impl *impl = implOf({this, &index, &columns.begin});
  return impl ? loadRows(*impl, numberedRows(*impl, *this, index, &columns, "gather"), isSparse) : Tile();
}

Strip View::rows(const Range &range) const { return {*this, range, true, false}; }
Strip View::columns(const Range &range) const { return {*this, range, false, false}; }

} // namespace tilewright
