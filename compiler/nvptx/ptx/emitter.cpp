#include "compiler/nvptx/ptx/emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::nvptx {

using namespace mlir;

int64_t bytesOf(Type element) { return std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8); }

template <class Op> static Num apply(Num a, Num b) {
  return {a.e, a.e->b.createOrFold<Op>(a.value, b.value)};
}
static Num like(Num a, int64_t value) { return a.e->number(a.value.getType(), value); }
static Value compare(arith::CmpIPredicate predicate, Num a, Num b) {
  return a.e->b.createOrFold<arith::CmpIOp>(predicate, a.value, b.value);
}

Num operator+(Num a, Num b) { return apply<arith::AddIOp>(a, b); }
Num operator-(Num a, Num b) { return apply<arith::SubIOp>(a, b); }
Num operator*(Num a, Num b) { return apply<arith::MulIOp>(a, b); }
Num operator^(Num a, Num b) { return apply<arith::XOrIOp>(a, b); }
Num operator+(Num a, int64_t b) { return a + like(a, b); }
Num operator-(Num a, int64_t b) { return a - like(a, b); }
Num operator*(Num a, int64_t b) { return a * like(a, b); }
Num operator/(Num a, int64_t b) { return b == 1 ? a : apply<arith::DivUIOp>(a, like(a, b)); }
Num operator%(Num a, int64_t b) { return apply<arith::RemUIOp>(a, like(a, b)); }
Num operator&(Num a, int64_t b) { return apply<arith::AndIOp>(a, like(a, b)); }
Num operator>>(Num a, int64_t b) { return apply<arith::ShRUIOp>(a, like(a, b)); }
Value operator<(Num a, Num b) { return compare(arith::CmpIPredicate::slt, a, b); }
Value operator<(Num a, int64_t b) { return a < like(a, b); }
Value operator==(Num a, int64_t b) { return compare(arith::CmpIPredicate::eq, a, like(a, b)); }
Value unsignedLess(Num a, Num b) { return compare(arith::CmpIPredicate::ult, a, b); }
Num minimum(Num a, Num b) { return apply<arith::MinSIOp>(a, b); }
Num maximum(Num a, Num b) { return apply<arith::MaxSIOp>(a, b); }

Num Emitter::number(Type type, int64_t value) {
  return {this, b.create<arith::ConstantIntOp>(value, cast<IntegerType>(type))};
}
Num Emitter::fromIndex(Value index) { return num(b.createOrFold<arith::IndexCastOp>(b.getI64Type(), index)); }
Value Emitter::toIndex(Num number) {
  return b.createOrFold<arith::IndexCastOp>(b.getIndexType(), number.value);
}
Num Emitter::wide(Num number) { return num(b.createOrFold<arith::ExtSIOp>(b.getI64Type(), number.value)); }
Num Emitter::narrow(Num number) { return num(b.createOrFold<arith::TruncIOp>(b.getI32Type(), number.value)); }
Num Emitter::choose(Value condition, Num yes, Num no) { return num(select(condition, yes.value, no.value)); }
Value Emitter::select(Value condition, Value yes, Value no) {
  return b.createOrFold<arith::SelectOp>(condition, yes, no);
}
SmallVector<Value> Emitter::ifElse(Value condition, llvm::function_ref<SmallVector<Value>()> body,
                                   ValueRange otherwise) {
  auto branch = b.create<scf::IfOp>(otherwise.getTypes(), condition, /*addThenBlock=*/true,
                                    /*addElseBlock=*/true);
  inside(branch.thenBlock(), [&] { b.create<scf::YieldOp>(body()); });
  inside(branch.elseBlock(), [&] { b.create<scf::YieldOp>(otherwise); });
  return branch.getResults();
}
Value Emitter::both(Value a, Value c) { return b.createOrFold<arith::AndIOp>(a, c); }
Value Emitter::either(Value a, Value c) { return b.createOrFold<arith::OrIOp>(a, c); }
Value Emitter::truth(bool value) { return b.create<arith::ConstantIntOp>(value, 1); }
Value Emitter::f32(float value) { return b.create<arith::ConstantFloatOp>(APFloat(value), b.getF32Type()); }
Value Emitter::bitcast(Type type, Value value) {
  return value.getType() == type ? value : b.createOrFold<arith::BitcastOp>(type, value);
}

/// A bf16 is the high half of an fp32.
Value Emitter::widen(Value value) {
  if (!value.getType().isBF16()) return b.create<arith::ExtFOp>(b.getF32Type(), value);
  Value bits = b.create<arith::ExtUIOp>(b.getI32Type(), bitcast(b.getIntegerType(16), value));
  return bitcast(b.getF32Type(), b.create<arith::ShLIOp>(bits, i32(16).value));
}

static Value pointer(Emitter &e, Num address, unsigned space) {
  return e.b.create<LLVM::IntToPtrOp>(LLVM::LLVMPointerType::get(e.b.getContext(), space), address.value);
}
Value Emitter::sharedPointer(Num address) {
  return pointer(*this, address, NVVM::NVVMMemorySpace::kSharedMemorySpace);
}
Value Emitter::globalPointer(Num address) {
  return pointer(*this, address, NVVM::NVVMMemorySpace::kGlobalMemorySpace);
}

SmallVector<Value> Emitter::ptx(TypeRange results, const std::string &text, const std::string &constraints,
                                ValueRange operands, bool hasEffects) {
  Type result;
  if (results.size() == 1) result = results[0];
  if (results.size() > 1) result = LLVM::LLVMStructType::getLiteral(b.getContext(), llvm::to_vector(results));
  auto op = b.create<LLVM::InlineAsmOp>(result ? TypeRange(result) : TypeRange(), operands, text, constraints,
                                        hasEffects, /*is_align_stack=*/false,
                                        LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT),
                                        /*operand_attrs=*/ArrayAttr());
  if (results.empty()) return {};
  if (results.size() == 1) return {op.getResult(0)};
  SmallVector<Value> values;
  for (size_t i = 0; i < results.size(); ++i)
    values.push_back(b.create<LLVM::ExtractValueOp>(op.getResult(0), ArrayRef<int64_t>{int64_t(i)}));
  return values;
}

namespace {

/// How PTX names a word, and what register class LLVM takes it in.
struct Word {
  const char *suffix, *constraint, *zero;
};

Word wordOf(Type type) {
  if (type.isF32()) return {"f32", "f", "mov.f32"};
  switch (type.getIntOrFloatBitWidth()) {
  case 16:
    return {"u16", "h", "mov.u16"};
  case 32:
    return {"u32", "r", "mov.u32"};
  default:
    return {"u64", "l", "mov.u64"};
  }
}

std::string vectorSuffix(int64_t words, const char *suffix) {
  return (words > 1 ? ".v" + std::to_string(words) + "." : ".") + suffix;
}

/// "{$0, $1}", or "$0" alone.
std::string operandList(int64_t first, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text += (i ? ", $" : "$") + std::to_string(first + i);
  return count > 1 ? "{" + text + "}" : text;
}

std::string repeated(const std::string &text, int64_t count) {
  std::string all;
  for (int64_t i = 0; i < count; ++i)
    all += (i ? "," : "") + text;
  return all;
}

std::string place(int64_t operand, int64_t offset) {
  return "[$" + std::to_string(operand) + (offset ? "+" + std::to_string(offset) : "") + "]";
}

/// A kind of memory, and the register class of its addresses.
struct Space {
  const char *name, *address;
};
constexpr Space kGlobal{"global", "l"}, kShared{"shared", "r"};

SmallVector<Value> load(Emitter &e, Space space, Num address, int64_t offset, Type word, int64_t words,
                        Value live) {
  const Word w = wordOf(word);
  const std::string load =
      std::string(" ld.") + space.name + vectorSuffix(words, w.suffix) + " " + operandList(0, words) + ", ";
  const std::string constraints =
      repeated(std::string("=") + w.constraint, words) + "," + space.address + (live ? ",b" : "");
  const SmallVector<Type> types(words, word);
  if (!live)
    return e.ptx(types, load.substr(1) + place(words, offset) + ";", constraints, {address.value}, true);
  std::string text;
  for (int64_t i = 0; i < words; ++i)
    text +=
        std::string(w.zero) + " $" + std::to_string(i) + ", 0" + (word.isF32() ? "f00000000" : "") + ";\n\t";
  text += "@$" + std::to_string(words + 1) + load + place(words, offset) + ";";
  return e.ptx(types, text, constraints, {address.value, live}, true);
}

void store(Emitter &e, Space space, Num address, int64_t offset, ValueRange words, Value live) {
  const Word w = wordOf(words[0].getType());
  const int64_t count = words.size();
  const std::string store = std::string("st.") + space.name + vectorSuffix(count, w.suffix) + " " +
                            place(count, offset) + ", " + operandList(0, count) + ";";
  const std::string constraints = repeated(w.constraint, count) + "," + space.address + (live ? ",b" : "");
  SmallVector<Value> operands(words);
  operands.push_back(address.value);
  if (!live) return (void)e.ptx({}, store, constraints, operands, true);
  operands.push_back(live);
  e.ptx({}, "@$" + std::to_string(count + 1) + " " + store, constraints, operands, true);
}

} // namespace

SmallVector<Value> Emitter::loadGlobal(Num address, int64_t offset, Type word, int64_t words, Value live) {
  return load(*this, kGlobal, address, offset, word, words, live);
}

void Emitter::storeGlobal(Num address, int64_t offset, ValueRange words, Value live) {
  store(*this, kGlobal, address, offset, words, live);
}

void Emitter::prefetchGlobal(Num address, Value live) {
  ptx({}, "@$1 prefetch.global.L2 [$0];", "l,b", {address.value, live}, true);
}

SmallVector<Value> Emitter::loadShared(Num address, int64_t offset, Type word, int64_t words, Value live) {
  return load(*this, kShared, address, offset, word, words, live);
}

void Emitter::storeShared(Num address, int64_t offset, ValueRange words, Value live) {
  store(*this, kShared, address, offset, words, live);
}

static Value addressIn(Emitter &e, Num cta, Num address) {
  return e.ptx(e.b.getI32Type(), "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", {address.value, cta.value},
               false)[0];
}

void Emitter::storeClusterIf(Value live, Num cta, Num address, Value word) {
  const Word w = wordOf(word.getType());
  ptx({}, std::string("@$2 st.shared::cluster.") + w.suffix + " [$1], $0;",
      std::string(w.constraint) + ",r,b", {word, addressIn(*this, cta, address), live}, true);
}

void Emitter::tellIf(Value live, Num cta, Num address, Value word, Num barrier) {
  const Word w = wordOf(word.getType());
  ptx({},
      std::string("@$3 st.async.shared::cluster.mbarrier::complete_tx::bytes.") + w.suffix +
          " [$1], $0, [$2];",
      std::string(w.constraint) + ",r,r,b",
      {word, addressIn(*this, cta, address), addressIn(*this, cta, barrier), live}, true);
}

void Emitter::storeSharedIf(Value live, Num address, Value word) {
  const Word w = wordOf(word.getType());
  ptx({}, std::string("@$2 st.shared.") + w.suffix + " [$1], $0;", std::string(w.constraint) + ",r,b",
      {word, address.value, live}, true);
}

Value Emitter::pinned(Value value) {
  const char *constraints = value.getType().isF32() ? "=f,f" : "=r,r";
  return ptx(value.getType(), "mov.b32 $0, $1;", constraints, {value}, true)[0];
}

void Emitter::warpBarrier() { b.create<NVVM::SyncWarpOp>(i32(-1).value); }

void Emitter::barrier() {
  if (!teamBarrier) {
    b.create<NVVM::Barrier0Op>();
  } else if (teamThreads == 32) {
    warpBarrier();
  } else {
    b.create<NVVM::BarrierOp>(teamBarrier, i32(teamThreads).value);
  }
}

Value Emitter::intrinsic(Type result, StringRef name, ValueRange operands) {
  return b.create<LLVM::CallIntrinsicOp>(result, b.getStringAttr(name), operands).getResult(0);
}

/// The value of another thread of the warp, of which `lane` tells.
static Value shuffle(Emitter &e, NVVM::ShflKind kind, Value value, int64_t lane) {
  const Value allThreads = e.i32(-1).value, lastLane = e.i32(31).value;
  return e.b.create<NVVM::ShflOp>(value.getType(), allThreads, value, e.i32(lane).value, lastLane, kind,
                                  UnitAttr());
}

Value Emitter::broadcast(Value value, int64_t lane) {
  return shuffle(*this, NVVM::ShflKind::idx, value, lane);
}

Value Emitter::exchange(Value value, int mask) {
  Type type = value.getType();
  if (type.getIntOrFloatBitWidth() == 64) {
    Value high = b.create<arith::ShRUIOp>(value, i64(32).value);
    Value low = exchange(narrow(num(value)).value, mask);
    high = exchange(narrow(num(high)).value, mask);
    Value wideLow = b.create<arith::ExtUIOp>(b.getI64Type(), low);
    Value wideHigh = b.create<arith::ExtUIOp>(b.getI64Type(), high);
    return b.create<arith::OrIOp>(wideLow, b.create<arith::ShLIOp>(wideHigh, i64(32).value));
  }
  return shuffle(*this, NVVM::ShflKind::bfly, value, mask);
}

} // namespace tilewright::nvptx
