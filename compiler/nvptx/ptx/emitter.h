#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace tilewright::nvptx {

using mlir::SmallVector;
using mlir::Type;
using mlir::Value;
using mlir::ValueRange;

class Emitter;

/// An i32 or i64 under construction: arithmetic on it emits code, unless it folds. Right-hand constants take
/// the type of the left side. Division and remainder are of numbers that are not negative.
struct Num {
  Emitter *e;
  Value value;
};
Num operator+(Num a, Num b);
Num operator-(Num a, Num b);
Num operator*(Num a, Num b);
Num operator^(Num a, Num b);
Num operator+(Num a, int64_t b);
Num operator-(Num a, int64_t b);
Num operator*(Num a, int64_t b);
Num operator/(Num a, int64_t b);
Num operator%(Num a, int64_t b);
Num operator&(Num a, int64_t b);
Num operator>>(Num a, int64_t b);
Value operator<(Num a, Num b);
Value operator<(Num a, int64_t b);
Value operator==(Num a, int64_t b);
Value unsignedLess(Num a, Num b);
Num minimum(Num a, Num b); ///< signed
Num maximum(Num a, Num b); ///< signed

/// Writes the code of one thread: integers, PTX instructions, shared memory, exchange between threads.
class Emitter {
public:
  Emitter(mlir::Location location, mlir::OpBuilder &builder) : b(location, builder) {}

  Num i32(int64_t value) { return number(b.getI32Type(), value); }
  Num i64(int64_t value) { return number(b.getI64Type(), value); }
  Num number(Type type, int64_t value);
  Num num(Value value) { return {this, value}; }
  Num fromIndex(Value index); ///< as i64
  Value toIndex(Num number);
  Num wide(Num number);   ///< i32 to i64, with its sign
  Num narrow(Num number); ///< low 32 bits
  Num choose(Value condition, Num yes, Num no);
  Value select(Value condition, Value yes, Value no);
  Value both(Value a, Value c);   ///< of i1
  Value either(Value a, Value c); ///< of i1
  Value truth(bool value);
  Value f32(float value);
  Value bitcast(Type type, Value value);
  Value widen(Value value);         ///< a number of 16 bits as fp32
  Value sharedPointer(Num address); ///< of an i32, as operations of NVVM take it
  Value globalPointer(Num address); ///< of an i64

  /// This thread's number in its CTA; set at the kernel's entry.
  Num thread() { return num(threadId); }
  Value threadId;
  Value teamBarrier; ///< number of the barrier of a part of the CTA's threads; null: all of them are meant
  int64_t teamThreads = 0;
  /// The same number, but LLVM cannot tell: what is computed from it inside a loop stays there. Else LLVM
  /// would move all of it out, however many registers it took; ptxas, which sees through, weighs that.
  Num pinned(Num number) { return num(pinned(number.value)); }
  Value pinned(Value value); ///< of 32 bits

  /// Inline PTX. Operands are $0 … with results first; constraints in the same order ("=r,l,b"). What touches
  /// memory `hasEffects`, and keeps its place among others that do.
  SmallVector<Value> ptx(mlir::TypeRange results, const std::string &text, const std::string &constraints,
                         ValueRange operands, bool hasEffects);

  /// `words` words of 32 or 64 bits at `address` + `offset`: global (i64) memory. Where `live` (i1) is false
  /// loads give zeros and stores do nothing; null stands for true.
  SmallVector<Value> loadGlobal(Num address, int64_t offset, Type word, int64_t words, Value live);
  void storeGlobal(Num address, int64_t offset, ValueRange words, Value live);
  /// Brings the line at an address to the second-level cache.
  void prefetchGlobal(Num address, Value live);

  /// Shared memory at a byte address (i32).
  SmallVector<Value> loadShared(Num address, int64_t offset, Type word, int64_t words, Value live = {});
  void storeShared(Num address, int64_t offset, ValueRange words, Value live = {});
  void storeSharedIf(Value live, Num address, Value word);

  /// At the same address in the shared memory of the CTA of the cluster with this number.
  void storeClusterIf(Value live, Num cta, Num address, Value word);
  /// The same without waiting; the barrier (mbarrier.h) at the same address as `barrier` counts its bytes
  /// there.
  void tellIf(Value live, Num cta, Num address, Value word, Num barrier);

  /// All threads of the team have come here, and see what each wrote before.
  void barrier();
  void warpBarrier(); ///< the same of a warp
  /// The value of the thread whose number in the warp differs in the bits of `mask`; 32 or 64 bits.
  Value exchange(Value value, int mask);
  Value intrinsic(Type result, llvm::StringRef name, ValueRange operands);
  /// The value of the warp's thread with this number.
  Value broadcast(Value value, int64_t lane);

  /// Runs `body` at the start of an op's region, and comes back.
  template <class Body> void inside(mlir::Block *block, Body body) {
    mlir::OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(block);
    body();
  }
  /// What `body` makes where the condition holds, else `otherwise`, of the same types.
  SmallVector<Value> ifElse(Value condition, llvm::function_ref<SmallVector<Value>()> body,
                            mlir::ValueRange otherwise);

  mlir::ImplicitLocOpBuilder b;
};

/// Bytes that an element takes in memory; truth values take one.
int64_t bytesOf(Type element);

} // namespace tilewright::nvptx
