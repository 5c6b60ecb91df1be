// Operations on the bits of integers and truth values, with implicit broadcasts.

#include "mlir/Dialect/Arith/IR/Arith.h"

#include "compiler/dsl/impl.h"

using namespace mlir;

namespace tilewright {

using Impl = KernelBuilder::Impl;

static bool isInteger(Type element) { return element.isInteger(32) || element.isInteger(64); }
static bool hasBits(Type element) { return element.isInteger(1) || isInteger(element); }

/// An operation of two tiles of one kind that `accepts` lets in.
template <typename Op>
static Tile ofTwo(const char *operation, const Tile &a, const Tile &b, StringRef expected,
                  llvm::function_ref<bool(Type)> accepts) {
  Impl *impl = implOf({&a, &b});
  if (!impl) return {};
  auto operands = meet(*impl, operation, a, b, expected, accepts);
  if (!operands) return impl->noTile();
  return impl->wrapTile(impl->create<Op>(operands->a, operands->b), operands->shape.width);
}

/// A 1×1 tile of the kind of `like`, whose bits hold `value`: as a signed number, or as an unsigned one.
static Tile bitPattern(const char *operation, const Tile &like, int64_t value) {
  Impl *impl = implOf({&like});
  if (!impl) return {};
  Value tile = impl->useTile(like, operation, "integers", isInteger);
  if (!tile) return impl->noTile();
  Type element = tile::elementOf(tile.getType());
  if (element.isInteger(32) && !llvm::isInt<32>(value) && !llvm::isUInt<32>(value)) {
    impl->fail(operation, "expected 32 bits beside a tile of " + describe(tile.getType()) + ", found " +
                              std::to_string(value));
    return impl->noTile();
  }
  auto bits = llvm::APInt(64, uint64_t(value)).trunc(element.getIntOrFloatBitWidth());
  return impl->wrapTile(
      impl->create<arith::ConstantOp>(DenseElementsAttr::get(RankedTensorType::get({1, 1}, element), bits)));
}

#define TW_BITWISE(symbol, Op)                                                                               \
  Tile operator symbol(const Tile &a, const Tile &b) {                                                       \
    return ofTwo<Op>("operator" #symbol, a, b, "truth values or integers", hasBits);                         \
  }                                                                                                          \
  Tile operator symbol(const Tile &a, int64_t b) { return a symbol bitPattern("operator" #symbol, a, b); }

TW_BITWISE(&, arith::AndIOp)
TW_BITWISE(|, arith::OrIOp)
TW_BITWISE(^, arith::XOrIOp)
#undef TW_BITWISE

/// What a shift by as many bits as a number has, or more, would give is not the same on all targets: `bits`
/// are below that.
template <typename Op> static Tile shifted(const char *operation, const Tile &a, const Tile &bits) {
  return ofTwo<Op>(operation, a, bits, "integers", isInteger);
}

static int64_t widthOf(Impl &impl, const Tile &a) {
  return tile::elementOf(impl.rawType(a)).getIntOrFloatBitWidth();
}

template <typename Op> static Tile shiftedBy(const char *operation, const Tile &a, const Tile &bits) {
  Impl *impl = implOf({&a, &bits});
  if (!impl || !impl->useTile(a, operation, "integers", isInteger)) return impl ? impl->noTile() : Tile();
  const Tile most = bitPattern(operation, a, widthOf(*impl, a) - 1);
  return shifted<Op>(operation, a, ofTwo<arith::AndIOp>(operation, bits, most, "integers", isInteger));
}

template <typename Op> static Tile shiftedBy(const char *operation, const Tile &a, int64_t bits) {
  Impl *impl = implOf({&a});
  if (!impl || !impl->useTile(a, operation, "integers", isInteger)) return impl ? impl->noTile() : Tile();
  const int64_t most = widthOf(*impl, a) - 1;
  if (bits < 0 || bits > most) {
    impl->fail(operation,
               "expected from 0 to " + std::to_string(most) + " bits, found " + std::to_string(bits));
    return impl->noTile();
  }
  return shifted<Op>(operation, a, bitPattern(operation, a, bits));
}

Tile operator<<(const Tile &a, const Tile &bits) { return shiftedBy<arith::ShLIOp>("operator<<", a, bits); }
Tile operator<<(const Tile &a, int64_t bits) { return shiftedBy<arith::ShLIOp>("operator<<", a, bits); }
Tile operator>>(const Tile &a, const Tile &bits) { return shiftedBy<arith::ShRSIOp>("operator>>", a, bits); }
Tile operator>>(const Tile &a, int64_t bits) { return shiftedBy<arith::ShRSIOp>("operator>>", a, bits); }
Tile shiftRightLogical(const Tile &a, const Tile &bits) {
  return shiftedBy<arith::ShRUIOp>("shiftRightLogical", a, bits);
}
Tile shiftRightLogical(const Tile &a, int64_t bits) {
  return shiftedBy<arith::ShRUIOp>("shiftRightLogical", a, bits);
}

Tile mulHigh(const Tile &a, const Tile &b) {
  return ofTwo<tile::MulHighOp>("mulHigh", a, b, "i32", [](Type type) { return type.isInteger(32); });
}
Tile mulHigh(const Tile &a, int64_t b) { return mulHigh(a, bitPattern("mulHigh", a, b)); }

} // namespace tilewright
