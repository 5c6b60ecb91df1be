// Operations on tiles that work element by element, with implicit broadcasts.

#include <cmath>
#include <limits>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include "compiler/dsl/impl.h"

using namespace mlir;

namespace tilewright {

using Impl = KernelBuilder::Impl;

static bool isTruth(Type element) { return element.isInteger(1); }
static bool isNumber(Type element) { return !isTruth(element); }

template <typename FloatOp, typename IntegerOp>
static Tile arithmetic(const char *operation, const Tile &a, const Tile &b) {
  Impl *impl = implOf({&a, &b});
  if (!impl) return {};
  auto operands = meet(*impl, operation, a, b, "numbers", isNumber);
  if (!operands) return impl->noTile();
  Value result = operands->isFloat() ? Value(impl->create<FloatOp>(operands->a, operands->b))
                                     : Value(impl->create<IntegerOp>(operands->a, operands->b));
  return impl->wrapTile(result, operands->shape.width);
}

// A 1×1 tile of the kind of `like`.
static Tile number(const char *operation, const Tile &like, double value) {
  Impl *impl = implOf({&like});
  if (!impl) return {};
  Value tile = impl->useTile(like, operation, "numbers", isNumber);
  if (!tile) return impl->noTile();
  Type element = tile::elementOf(tile.getType());
  auto type = RankedTensorType::get({1, 1}, element);
  if (element.isF32())
    return impl->wrapTile(impl->create<arith::ConstantOp>(DenseElementsAttr::get(type, float(value))));
  double limit = std::ldexp(1.0, int(element.getIntOrFloatBitWidth()) - 1);
  if (std::trunc(value) != value || value < -limit || value >= limit) {
    impl->fail(operation, "expected an integer beside a tile of " + describe(tile.getType()) + ", found " +
                              std::to_string(value));
    return impl->noTile();
  }
  auto attribute = DenseElementsAttr::get(type, impl->builder.getIntegerAttr(element, int64_t(value)));
  return impl->wrapTile(impl->create<arith::ConstantOp>(attribute));
}

Tile operator+(const Tile &a, const Tile &b) {
  return arithmetic<arith::AddFOp, arith::AddIOp>("operator+", a, b);
}
Tile operator-(const Tile &a, const Tile &b) {
  return arithmetic<arith::SubFOp, arith::SubIOp>("operator-", a, b);
}
Tile operator*(const Tile &a, const Tile &b) {
  return arithmetic<arith::MulFOp, arith::MulIOp>("operator*", a, b);
}
Tile max(const Tile &a, const Tile &b) { return arithmetic<arith::MaximumFOp, arith::MaxSIOp>("max", a, b); }
Tile min(const Tile &a, const Tile &b) { return arithmetic<arith::MinimumFOp, arith::MinSIOp>("min", a, b); }

Tile operator/(const Tile &a, const Tile &b) {
  Impl *impl = implOf({&a, &b});
  if (!impl) return {};
  auto operands = meet(*impl, "operator/", a, b, "f32", [](Type element) { return element.isF32(); });
  if (!operands) return impl->noTile();
  return impl->wrapTile(impl->create<arith::DivFOp>(operands->a, operands->b), operands->shape.width);
}

Tile operator+(const Tile &a, double b) { return a + number("operator+", a, b); }
Tile operator+(double a, const Tile &b) { return number("operator+", b, a) + b; }
Tile operator-(const Tile &a, double b) { return a - number("operator-", a, b); }
Tile operator-(double a, const Tile &b) { return number("operator-", b, a) - b; }
Tile operator*(const Tile &a, double b) { return a * number("operator*", a, b); }
Tile operator*(double a, const Tile &b) { return number("operator*", b, a) * b; }
Tile operator/(const Tile &a, double b) { return a / number("operator/", a, b); }
Tile operator/(double a, const Tile &b) { return number("operator/", b, a) / b; }

// -----------------------------------------------------------------------------------------------------------
// Truth values
// -----------------------------------------------------------------------------------------------------------

static Tile compare(const char *operation, arith::CmpFPredicate floats, arith::CmpIPredicate integers,
                    const Tile &a, const Tile &b) {
  Impl *impl = implOf({&a, &b});
  if (!impl) return {};
  auto operands = meet(*impl, operation, a, b, "numbers", isNumber);
  if (!operands) return impl->noTile();
  Value result = operands->isFloat() ? Value(impl->create<arith::CmpFOp>(floats, operands->a, operands->b))
                                     : Value(impl->create<arith::CmpIOp>(integers, operands->a, operands->b));
  return impl->wrapTile(result, operands->shape.width);
}

#define TW_COMPARISON(symbol, floats, integers)                                                              \
  Tile operator symbol(const Tile &a, const Tile &b) {                                                       \
    return compare("operator" #symbol, arith::CmpFPredicate::floats, arith::CmpIPredicate::integers, a, b);  \
  }                                                                                                          \
  Tile operator symbol(const Tile &a, double b) { return a symbol number("operator" #symbol, a, b); }

TW_COMPARISON(==, OEQ, eq)
TW_COMPARISON(!=, UNE, ne)
TW_COMPARISON(<, OLT, slt)
TW_COMPARISON(<=, OLE, sle)
TW_COMPARISON(>, OGT, sgt)
TW_COMPARISON(>=, OGE, sge)
#undef TW_COMPARISON

Tile select(const Tile &condition, const Tile &a, const Tile &b) {
  Impl *impl = implOf({&condition, &a, &b});
  if (!impl) return {};
  Value choice = impl->useTile(condition, "select", "truth values as the condition", isTruth);
  auto operands = meet(*impl, "select", a, b, "", nullptr);
  if (!choice || !operands) return impl->noTile();
  auto shape = impl->join(impl->shapeOf(choice), operands->shape, "select");
  if (!shape) return impl->noTile();
  Value result =
      impl->create<arith::SelectOp>(impl->broadcastTo(choice, *shape), impl->broadcastTo(operands->a, *shape),
                                    impl->broadcastTo(operands->b, *shape));
  return impl->wrapTile(result, shape->width);
}

Tile select(const Tile &condition, const Tile &a, double b) {
  return select(condition, a, number("select", a, b));
}
Tile select(const Tile &condition, double a, const Tile &b) {
  return select(condition, number("select", b, a), b);
}

// -----------------------------------------------------------------------------------------------------------
// One operand
// -----------------------------------------------------------------------------------------------------------

Tile operator-(const Tile &a) {
  Impl *impl = implOf({&a});
  if (!impl) return {};
  Value value = impl->useTile(a, "operator-", "numbers", isNumber);
  if (!value) return impl->noTile();
  if (!tile::elementOf(value.getType()).isF32()) return 0 - a;
  return impl->wrapTile(impl->create<arith::NegFOp>(value), impl->shapeOf(value).width);
}

Tile abs(const Tile &a) {
  Impl *impl = implOf({&a});
  if (!impl) return {};
  Value value = impl->useTile(a, "abs", "numbers", isNumber);
  if (!value) return impl->noTile();
  bool isFloat = tile::elementOf(value.getType()).isF32();
  Value result =
      isFloat ? Value(impl->create<math::AbsFOp>(value)) : Value(impl->create<math::AbsIOp>(value));
  return impl->wrapTile(result, impl->shapeOf(value).width);
}

template <typename Op, typename... Flags>
static Tile function(const char *operation, const Tile &x, Flags... flags) {
  Impl *impl = implOf({&x});
  if (!impl) return {};
  Value value = impl->useTile(x, operation, "f32", [](Type element) { return element.isF32(); });
  if (!value) return impl->noTile();
  return impl->wrapTile(impl->create<Op>(value, flags...), impl->shapeOf(value).width);
}

Tile exp(const Tile &x) { return function<math::ExpOp>("exp", x); }
Tile expAbove(const Tile &x, const Tile &shift) {
  return function<math::ExpOp>("expAbove", x - shift, arith::FastMathFlags::contract);
}
Tile expm1(const Tile &x) { return function<math::ExpM1Op>("expm1", x); }
Tile log(const Tile &x) { return function<math::LogOp>("log", x); }
Tile log1p(const Tile &x) { return function<math::Log1pOp>("log1p", x); }
Tile tanh(const Tile &x) { return function<math::TanhOp>("tanh", x); }
Tile erf(const Tile &x) { return function<math::ErfOp>("erf", x); }
Tile sqrt(const Tile &x) { return function<math::SqrtOp>("sqrt", x); }
Tile rsqrt(const Tile &x) { return function<math::RsqrtOp>("rsqrt", x); }

static Value convert(Impl &impl, Value value, Type to) {
  Type from = tile::elementOf(value.getType()), type = tile::tileType(value).clone(to);
  if (isTruth(from))
    return to.isF32() ? Value(impl.create<arith::UIToFPOp>(type, value))
                      : Value(impl.create<arith::ExtUIOp>(type, value));
  if (to.isF32()) return impl.create<arith::SIToFPOp>(type, value);
  if (from.isF32()) return impl.create<arith::FPToSIOp>(type, value);
  if (from.getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth())
    return impl.create<arith::ExtSIOp>(type, value);
  return impl.create<arith::TruncIOp>(type, value);
}

Tile cast(const Tile &x, ElementType element) {
  Impl *impl = implOf({&x});
  if (!impl) return {};
  Value value = impl->use(x, "cast");
  if (!value) return impl->noTile();
  if (element == ElementType::bf16 || element == ElementType::f16) {
    impl->fail("cast", std::string("expected f32, i32 or i64, which tiles hold, found ") +
                           elementName(element) + "; stores round to a view's type");
    return impl->noTile();
  }
  Type to = impl->mlirType(element);
  if (tile::elementOf(value.getType()) == to) return x;
  return impl->wrapTile(convert(*impl, value, to), impl->shapeOf(value).width);
}

Tile rounded(const Tile &x, ElementType element) {
  Impl *impl = implOf({&x});
  if (!impl) return {};
  Value value = impl->useTile(x, "rounded", "f32", [](Type type) { return type.isF32(); });
  if (!value) return impl->noTile();
  if (!isFloat(element)) {
    impl->fail("rounded", std::string("expected f32, bf16 or f16, found ") + elementName(element));
    return impl->noTile();
  }
  Type narrow = impl->mlirType(element);
  if (narrow.isF32()) return x;
  Type type = llvm::cast<RankedTensorType>(value.getType()).clone(narrow);
  return impl->wrapTile(impl->widened(impl->create<arith::TruncFOp>(type, value)),
                        impl->shapeOf(value).width);
}

} // namespace tilewright
