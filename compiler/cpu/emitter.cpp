#include "compiler/cpu/emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tilewright::cpu {

using namespace mlir;

Type withElement(Type shaped, Type element) {
  if (auto vector = dyn_cast<VectorType>(shaped)) return VectorType::get(vector.getShape(), element);
  return element;
}

static int64_t bytesOf(Type element) { return element.getIntOrFloatBitWidth() / 8; }

void Emitter::enter(Block &entryBlock) {
  entry = &entryBlock;
  b.setInsertionPointToStart(entry);
}

Value Emitter::index(int64_t value) {
  Value &constant = constants[value];
  if (!constant) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(entry);
    constant = b.create<arith::ConstantIndexOp>(value);
  }
  return constant;
}
Value Emitter::add(Value a, Value c) { return b.createOrFold<arith::AddIOp>(a, c); }
Value Emitter::sub(Value a, Value c) { return b.createOrFold<arith::SubIOp>(a, c); }
Value Emitter::mul(Value a, Value c) { return b.createOrFold<arith::MulIOp>(a, c); }
Value Emitter::minimum(Value a, Value c) { return b.createOrFold<arith::MinSIOp>(a, c); }
Value Emitter::clamp(Value x, int64_t low, int64_t high) {
  return minimum(b.createOrFold<arith::MaxSIOp>(x, index(low)), index(high));
}
Value Emitter::ceilDiv(Value a, int64_t c) {
  return b.createOrFold<arith::DivUIOp>(add(a, index(c - 1)), index(c));
}
Value Emitter::roundUp(Value a, int64_t c) { return mul(ceilDiv(a, c), index(c)); }
Value Emitter::both(Value a, Value c) { return b.createOrFold<arith::AndIOp>(a, c); }
Value Emitter::less(Value a, Value c) {
  return b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::slt, a, c);
}

void Emitter::loop(Value from, Value to, Value step, llvm::function_ref<void(Value)> body) {
  auto forOp = b.create<scf::ForOp>(from, to, step);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(forOp.getBody());
  body(forOp.getInductionVar());
}

VectorType Emitter::vectorOf(Type element, int64_t lanes) { return VectorType::get({lanes}, element); }

// 16-bit floats travel through memory as integers: LLVM's masked bf16 accesses are not legal on every x86.
static Type memoryType(Type element) {
  return isa<BFloat16Type, Float16Type>(element) ? IntegerType::get(element.getContext(), 16) : element;
}

// Single bf16 numbers are moved between vectors as integers, too: without AVX512-BF16, LLVM rounds a scalar
// bf16 by a call of a function that no library here has.
static Value asMemoryType(ImplicitLocOpBuilder &b, Value x, Type stored) {
  return getElementTypeOrSelf(x) == stored
             ? x
             : Value(b.create<arith::BitcastOp>(withElement(x.getType(), stored), x));
}

Value Emitter::splat(Value scalar, int64_t lanes) {
  Type element = scalar.getType(), stored = memoryType(element);
  Value moved = b.create<vector::BroadcastOp>(vectorOf(stored, lanes), asMemoryType(b, scalar, stored));
  return asMemoryType(b, moved, element);
}

Value Emitter::zeros(Type element, int64_t lanes) {
  VectorType type = vectorOf(element, lanes);
  return b.create<arith::ConstantOp>(type, b.getZeroAttr(type));
}

Value Emitter::address(Value base, Value offset, Type element) {
  if (auto constant = getConstantIntValue(offset)) // small ones: inside a micro tile
    return b.create<LLVM::GEPOp>(base.getType(), element, base, ArrayRef<LLVM::GEPArg>{int32_t(*constant)});
  Value wide = b.create<arith::IndexCastOp>(b.getI64Type(), offset);
  return b.create<LLVM::GEPOp>(base.getType(), element, base, ArrayRef<LLVM::GEPArg>{wide});
}

Value Emitter::address(const MemoryView &view, Value row, Value column) {
  return address(view.pointer, add(mul(row, view.rowStride), column), view.element);
}

Value Emitter::laneMask(Value live, int64_t lanes, Value first) {
  auto numberOf = [&](Value lane) {
    return splat(b.create<arith::IndexCastOp>(b.getI32Type(), clamp(lane, 0, lanes)), lanes);
  };
  Value end = numberOf(live);
  SmallVector<int32_t> numbers(lanes);
  for (int64_t lane = 0; lane < lanes; ++lane)
    numbers[lane] = lane;
  Value iota = b.create<arith::ConstantOp>(b.getI32VectorAttr(numbers));
  Value isBeforeEnd = b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, iota, end);
  if (!first) return isBeforeEnd;
  return both(isBeforeEnd, b.create<arith::CmpIOp>(arith::CmpIPredicate::sge, iota, numberOf(first)));
}

Value Emitter::load(Value pointer, Type element, int64_t lanes, Value mask) {
  Type stored = memoryType(element);
  auto type = vectorOf(stored, lanes);
  unsigned alignment = bytesOf(element);
  Value loaded;
  if (mask) {
    loaded = b.create<LLVM::MaskedLoadOp>(type, pointer, mask, zeros(stored, lanes), alignment);
  } else {
    loaded = b.create<LLVM::LoadOp>(type, pointer, alignment);
  }
  return asMemoryType(b, loaded, element);
}

void Emitter::store(Value pointer, Value vector, Value mask) {
  Type element = cast<VectorType>(vector.getType()).getElementType();
  vector = asMemoryType(b, vector, memoryType(element));
  unsigned alignment = bytesOf(element);
  if (mask)
    b.create<LLVM::MaskedStoreOp>(vector, pointer, mask, alignment);
  else
    b.create<LLVM::StoreOp>(vector, pointer, alignment);
}

Value Emitter::loadScalar(Value pointer, Type element, Value live) {
  return only(load(pointer, element, 1, splat(live, 1)));
}

Value Emitter::only(Value vector) {
  Type element = getElementTypeOrSelf(vector);
  Value stored = asMemoryType(b, vector, memoryType(element));
  return asMemoryType(b, b.create<vector::ExtractOp>(stored, ArrayRef<int64_t>{0}), element);
}

void Emitter::storeScalar(Value pointer, Value scalar, Value live) {
  store(pointer, splat(scalar, 1), splat(live, 1));
}

Value Emitter::likeShape(Type element, Value shaped, int64_t constant) {
  Type type = withElement(shaped.getType(), element);
  Attribute scalar = b.getIntegerAttr(element, constant);
  if (auto vector = dyn_cast<VectorType>(type))
    return b.create<arith::ConstantOp>(DenseElementsAttr::get(vector, scalar));
  return b.create<arith::ConstantOp>(cast<TypedAttr>(scalar));
}

Value Emitter::widen(Value x) {
  Type wide = withElement(x.getType(), b.getF32Type());
  if (!getElementTypeOrSelf(x).isBF16()) return b.create<arith::ExtFOp>(wide, x);
  Type i16 = b.getI16Type(), i32 = b.getI32Type();
  Value bits = b.create<arith::BitcastOp>(withElement(x.getType(), i16), x);
  Value low = b.create<arith::ExtUIOp>(withElement(x.getType(), i32), bits);
  return b.create<arith::BitcastOp>(wide, b.create<arith::ShLIOp>(low, likeShape(i32, low, 16)));
}

/// fp32 numbers whose upper halves are rounded to bf16; NaNs may become something else.
Value Emitter::roundedBits(Value bits) {
  auto constant = [&](int64_t value) { return likeShape(b.getI32Type(), bits, value); };
  Value odd = b.create<arith::AndIOp>(b.create<arith::ShRUIOp>(bits, constant(16)), constant(1));
  return b.create<arith::AddIOp>(bits, b.create<arith::AddIOp>(odd, constant(0x7fff)));
}

Value Emitter::narrow(Value x, Type element) {
  Type narrowed = withElement(x.getType(), element);
  if (!element.isBF16()) return b.create<arith::TruncFOp>(narrowed, x);
  // high half of bits + 0x7fff + (lowest kept bit); a NaN gets a quiet payload instead.
  Type i32 = b.getI32Type();
  Value bits = b.create<arith::BitcastOp>(withElement(x.getType(), i32), x);
  auto constant = [&](int64_t value) { return likeShape(i32, bits, value); };
  Value rounded = roundedBits(bits);
  Value isNan = b.create<arith::CmpFOp>(arith::CmpFPredicate::UNO, x, x);
  Value chosen = b.create<arith::SelectOp>(isNan, constant(0x7fc00000), rounded);
  Value high = b.create<arith::ShRUIOp>(chosen, constant(16));
  Value half = b.create<arith::TruncIOp>(withElement(x.getType(), b.getI16Type()), high);
  return b.create<arith::BitcastOp>(narrowed, half);
}

Value Emitter::widenPairs(Value x) {
  const int64_t count = cast<VectorType>(x.getType()).getNumElements(), lanes = machine.lanes;
  VectorType words = vectorOf(b.getI32Type(), count / 2), numbers = vectorOf(b.getF32Type(), count / 2);
  Value pairs = b.create<vector::BitCastOp>(words, asMemoryType(b, x, b.getI16Type()));
  auto constant = [&](int64_t value) { return likeShape(b.getI32Type(), pairs, value); };
  Value first = b.create<arith::ShLIOp>(pairs, constant(16));
  Value second = b.create<arith::AndIOp>(pairs, constant(0xffff0000));
  SmallVector<int64_t> places; // a register of first ones, then one of second ones
  for (int64_t at = 0; at < count; ++at)
    places.push_back(at / (2 * lanes) * lanes + at % lanes + (at / lanes % 2 ? count / 2 : 0));
  return b.create<vector::ShuffleOp>(b.create<arith::BitcastOp>(numbers, first),
                                     b.create<arith::BitcastOp>(numbers, second), places);
}

Value Emitter::narrowPairs(Value x) {
  const int64_t count = cast<VectorType>(x.getType()).getNumElements(), lanes = machine.lanes;
  VectorType words = vectorOf(b.getI32Type(), count), halves = vectorOf(b.getI16Type(), count);
  Value rounded = roundedBits(b.create<arith::BitcastOp>(words, x));
  Value isNan = b.create<arith::CmpFOp>(arith::CmpFPredicate::UNO, x, x); // all ones are a NaN
  rounded = b.create<arith::OrIOp>(rounded, b.create<arith::ExtSIOp>(words, isNan));
  SmallVector<int64_t> firsts, seconds, inPairs;
  for (int64_t pair = 0; pair < count / 2; ++pair) {
    firsts.push_back(pair / lanes * 2 * lanes + pair % lanes);
    seconds.push_back(firsts.back() + lanes);
    llvm::append_range(inPairs, ArrayRef<int64_t>{2 * pair, count + 2 * pair + 1});
  }
  Value first = b.create<vector::ShuffleOp>(rounded, rounded, firsts);
  Value second = b.create<vector::ShuffleOp>(rounded, rounded, seconds);
  first = b.create<arith::ShRUIOp>(first, likeShape(b.getI32Type(), first, 16));
  Value joined = b.create<vector::ShuffleOp>(b.create<vector::BitCastOp>(halves, first),
                                             b.create<vector::BitCastOp>(halves, second), inPairs);
  return asMemoryType(b, joined, b.getBF16Type());
}

} // namespace tilewright::cpu
