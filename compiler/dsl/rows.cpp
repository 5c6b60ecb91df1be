// Operations that mix the elements of a tile: reductions, gather and scatter, transposition, products.

#include "compiler/dsl/impl.h"

using namespace mlir;

namespace tilewright {

using Impl = KernelBuilder::Impl;

int64_t Tile::rows() const {
  return valid() ? tile::rowsOf(Value::getFromOpaquePointer(opaque()).getType()) : 1;
}

int64_t Tile::columns() const {
  if (!valid()) return 1;
  Type type = Value::getFromOpaquePointer(opaque()).getType();
  return tile::isLong(type) ? kWhole : tile::columnsOf(type);
}

static bool isF32(Type element) { return element.isF32(); }

static Tile reduce(tile::ReductionKind kind, const char *operation, const Tile &x, Axis axis) {
  Impl *impl = implOf({&x});
  if (!impl) return {};
  Value value =
      impl->useTile(x, operation, "numbers (see cast)", [](Type element) { return !element.isInteger(1); });
  if (!value) return impl->noTile();
  Value width = impl->shapeOf(value).width;
  return impl->wrapTile(impl->create<tile::ReduceOp>(kind, value, axis == Axis::rows ? 0 : 1), width);
}

Tile sum(const Tile &x, Axis axis) { return reduce(tile::ReductionKind::sum, "sum", x, axis); }
Tile max(const Tile &x, Axis axis) { return reduce(tile::ReductionKind::max, "max", x, axis); }
Tile min(const Tile &x, Axis axis) { return reduce(tile::ReductionKind::min, "min", x, axis); }

Tile logSoftmax(const Tile &x) {
  Impl *impl = implOf({&x});
  if (!impl) return {};
  Value value = impl->useTile(x, "logSoftmax", "f32", isF32);
  if (!value) return impl->noTile();
  return impl->wrapTile(impl->create<tile::LogSoftmaxOp>(value), impl->shapeOf(value).width);
}

Tile gather(const Tile &x, const Tile &index) {
  Impl *impl = implOf({&x, &index});
  if (!impl) return {};
  Value value = impl->use(x, "gather");
  if (!value) return impl->noTile();
  Value column = impl->useColumn(index, "gather", tile::rowsOf(value.getType()));
  if (!column) return impl->noTile();
  return impl->wrapTile(impl->create<tile::GatherOp>(value, column));
}

Tile scatter(const Tile &value, const Tile &index, const Tile &like) {
  Impl *impl = implOf({&value, &index, &like});
  if (!impl) return {};
  Value source = impl->use(value, "scatter"), target = impl->use(like, "scatter");
  if (!source || !target) return impl->noTile();
  TileShape shape = impl->shapeOf(target), column{shape.rows, 1, {}};
  if (!impl->broadcastsTo(source, column)) {
    impl->fail("scatter", "expected one value for each row of " + describe(shape) + ", found " +
                              describe(source.getType()));
    return impl->noTile();
  }
  Value columns = impl->useColumn(index, "scatter", shape.rows);
  if (!columns) return impl->noTile();
  Type type = RankedTensorType::get({shape.rows, shape.columns}, tile::elementOf(source.getType()));
  return impl->wrapTile(
      impl->create<tile::ScatterOp>(type, impl->broadcastTo(source, column), columns, shape.width),
      shape.width);
}

Tile transpose(const Tile &x) {
  Impl *impl = implOf({&x});
  if (!impl) return {};
  Value value = impl->use(x, "transpose");
  if (!value) return impl->noTile();
  if (tile::isLong(value.getType())) {
    impl->fail("transpose", "expected a tile whose shape is known, found " + describe(value.getType()));
    return impl->noTile();
  }
  return impl->wrapTile(impl->create<tile::TransposeOp>(value));
}

// -----------------------------------------------------------------------------------------------------------
// Products
// -----------------------------------------------------------------------------------------------------------

Tile dot(const Tile &a, const Tile &b) {
  Impl *impl = implOf({&a, &b});
  if (!impl) return {};
  Value x = impl->useTile(a, "dot", "f32", isF32), y = impl->useTile(b, "dot", "f32", isF32);
  if (!x || !y) return impl->noTile();
  TileShape left = impl->shapeOf(x), right = impl->shapeOf(y);
  if (left.isLong() || right.isLong() || left.columns != right.rows) {
    impl->fail("dot", "expected MxK and KxN tiles of known shape, found " + describe(left) + " and " +
                          describe(right));
    return impl->noTile();
  }
  return impl->wrapTile(impl->create<tile::DotOp>(x, y));
}

// Checks one operand of a product of strips; `wholeAxis` is where K lies in the operand as `dot` sees it.
// Returns the contracted axis of the strip's view.
static std::optional<uint64_t> contractedAxis(Impl &impl, const Strip &strip, uint64_t wholeAxis) {
  if (!impl.use(strip.view, "dot") || !impl.use(strip.range.begin, "dot")) return {};
  tile::ViewType type = impl.viewType(strip.view);
  if (type.getRank() != 2 || !llvm::isa<FloatType>(type.getElement())) {
    impl.fail("dot", "expected strips of views of rank 2 of f32, bf16 or f16, found a " + describe(type));
    return {};
  }
  if (strip.range.extent < 1) {
    impl.fail("dot",
              "expected a strip whose rows (or columns) are a range of known extent, found a whole one");
    return {};
  }
  uint64_t viewAxis = strip.byRows ? 1 : 0;
  if ((strip.transposed ? 1 - viewAxis : viewAxis) == wholeAxis) return viewAxis;
  impl.fail("dot",
            std::string("expected the ") + (wholeAxis == 1 ? "columns of the left" : "rows of the right") +
                " operand to be a whole axis, found a range; transpose the strip or take its other axis");
  return {};
}

// `part` may be null: all of it.
static Tile contract(const Strip &a, const Strip &b, const Part *part) {
  Impl *impl = implOf({&a.view, &b.view});
  if (!impl) return {};
  auto left = contractedAxis(*impl, a, 1), right = contractedAxis(*impl, b, 0);
  if (!left || !right) return impl->noTile();
  Value number = part ? impl->use(part->number, "dot") : Value();
  if (part && !number) return impl->noTile();
  if (part && part->of < 1) {
    impl->fail("dot", "expected a part of at least 1, found one of " + std::to_string(part->of));
    return impl->noTile();
  }
  impl->bodyBegan = true;
  Type type = RankedTensorType::get({a.range.extent, b.range.extent}, impl->builder.getF32Type());
  return impl->wrapTile(impl->create<tile::ContractOp>(
      type, impl->use(a.view, "dot"), impl->use(a.range.begin, "dot"), *left, impl->use(b.view, "dot"),
      impl->use(b.range.begin, "dot"), *right, number, part ? part->of : 1));
}

Tile dot(const Strip &a, const Strip &b) { return contract(a, b, nullptr); }
Tile dot(const Strip &a, const Strip &b, const Part &part) { return contract(a, b, &part); }

} // namespace tilewright
