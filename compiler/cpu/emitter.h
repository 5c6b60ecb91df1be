#pragma once

#include "compiler/cpu/machine.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace tilewright::cpu {

using mlir::Location;
using mlir::Type;
using mlir::Value;
using mlir::ValueRange;

/// A tensor in memory as lowered code sees it: sizes and the stride of its rows are index values.
struct MemoryView {
  Value pointer;
  mlir::SmallVector<Value, 2> sizes;
  Value rowStride; ///< rank 2
  Type element;
};

/// Writes scalar, vector and memory operations. A lane mask is a vector<lanes×i1>; where one is null, all
/// lanes live.
class Emitter {
public:
  Emitter(Location location, mlir::OpBuilder &builder, const Machine &machine)
      : b(location, builder), machine(machine) {}

  /// Index constants are made once a function, at the start of its entry block.
  void enter(mlir::Block &entryBlock);
  Value index(int64_t value);
  Value add(Value a, Value c);
  Value sub(Value a, Value c);
  Value mul(Value a, Value c);
  Value minimum(Value a, Value c); ///< of signed index values
  Value clamp(Value x, int64_t low, int64_t high);
  Value ceilDiv(Value a, int64_t c); ///< of a non-negative index value
  Value roundUp(Value a, int64_t c); ///< to a multiple of c; of a non-negative index value
  Value both(Value a, Value c);      ///< of i1
  Value less(Value a, Value c);      ///< of signed index values

  /// for (i = from; i < to; i += step) body(i)
  void loop(Value from, Value to, Value step, llvm::function_ref<void(Value)> body);

  mlir::VectorType vectorOf(Type element, int64_t lanes);
  Value splat(Value scalar, int64_t lanes);
  Value zeros(Type element, int64_t lanes);
  /// base + offset elements.
  Value address(Value base, Value offset, Type element);
  Value address(const MemoryView &view, Value row, Value column); ///< of rank 2
  /// Lanes [first, live) of `lanes`, both any signed index values; without `first`, from 0 on.
  Value laneMask(Value live, int64_t lanes, Value first = {});

  /// Masked lanes read as zero. 16-bit floats keep their type.
  Value load(Value pointer, Type element, int64_t lanes, Value mask = {});
  void store(Value pointer, Value vector, Value mask = {});
  Value loadScalar(Value pointer, Type element, Value live); ///< zero when `live` (i1) is false
  Value only(Value vector);                                  ///< its element, of a vector of one
  void storeScalar(Value pointer, Value scalar, Value live);

  /// bf16 or f16 to fp32 and back (to nearest even, NaN stays NaN), on scalars and vectors.
  Value widen(Value x);
  Value narrow(Value x, Type element);
  /// The same of bf16 vectors, whose fp32 numbers lie as StripsInPairs says.
  Value widenPairs(Value x);
  Value narrowPairs(Value x);

  mlir::ImplicitLocOpBuilder b;
  const Machine &machine;

private:
  mlir::Block *entry = nullptr;
  mlir::DenseMap<int64_t, Value> constants;

  Value likeShape(Type element, Value shaped, int64_t constant);
  Value roundedBits(Value bits);
};

/// The type `element` takes where `shaped` is a vector: a vector of as many lanes.
Type withElement(Type shaped, Type element);

} // namespace tilewright::cpu
