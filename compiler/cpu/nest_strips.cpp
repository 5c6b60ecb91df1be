#include "compiler/cpu/nest_strips.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/SetVector.h"

namespace tilewright::cpu {

using namespace mlir;

namespace {

/// Vectors side by side, at most; of those that functions are made of, where there are no more than so many
/// registers.
constexpr int64_t kSideBySide = 4, kFunctionsSideBySide = 2;
constexpr int kFewRegisters = 16;

bool isWide(Value value) { return tileType(value).getDimSize(1) > 1; }

/// Whether a strip of the value needs no mask: of memory, or as the truth values that a processor without
/// AVX-512 takes apart where they are of several vectors. A value in `seen` was asked for: the first that
/// is not of the interior ends the search, so all the others are.
bool isOfInterior(const FunctionLowering &lowering, Value value, llvm::DenseSet<Value> &seen) {
  if (!seen.insert(value).second) return true;
  Operation *op = value.getDefiningOp();
  if (!op || lowering.buffer(value) || !isWide(value)) return true;
  if (tileType(value).getElementType().isInteger(1)) return false;
  if (isa<tile::LoadOp, tile::LoadRowsOp>(op)) return tile::isInterior(op);
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return !tileType(operand) || isOfInterior(lowering, operand, seen);
  });
}

/// The operations that a strip of the value takes.
void addOperations(const FunctionLowering &lowering, Value value, llvm::SetVector<Operation *> &ops) {
  Operation *op = value.getDefiningOp();
  if (!op || lowering.buffer(value) || !isWide(value) || !ops.insert(op)) return;
  for (Value operand : op->getOperands())
    if (tileType(operand)) addOperations(lowering, operand, ops);
}

llvm::SetVector<Operation *> operationsOf(const FunctionLowering &lowering, ArrayRef<const Sink *> sinks) {
  llvm::SetVector<Operation *> ops;
  for (const Sink *sink : sinks) {
    if (sink->kind == Sink::Kind::store) ops.insert(sink->op);
    addOperations(lowering, sink->value, ops);
  }
  return ops;
}

bool takesPolynomial(Operation *op) {
  return isa<math::MathDialect>(op->getDialect()) && !isa<math::SqrtOp, math::RsqrtOp, math::AbsFOp>(op);
}

} // namespace

bool takesPairs(const FunctionLowering &lowering, const NestPlan &plan) {
  const Sink &sink = plan.sinks.front();
  Operation *op = sink.op ? sink.op : sink.value.getDefiningOp();
  return op && lowering.takesPairs(op);
}

int64_t widestStrip(FunctionLowering &lowering, const NestPlan &plan) {
  const int64_t lanes = lowering.emitter().machine.lanes, wide = kSideBySide * lanes;
  llvm::DenseSet<Value> seen;
  const bool isInterior =
      plan.columns % wide == 0 && llvm::all_of(plan.sinks, [&](const Sink &sink) {
        if (!isWide(sink.value)) return true;
        const bool isStore = isa_and_nonnull<tile::StoreOp, tile::StoreRowsOp, tile::ReduceAddOp>(sink.op);
        return isOfInterior(lowering, sink.value, seen) && (!isStore || tile::isInterior(sink.op));
      });
  if (isInterior) return wide;
  return takesPairs(lowering, plan) ? 2 * lanes : lanes;
}

bool takeFunctions(const FunctionLowering &lowering, ArrayRef<const Sink *> sinks) {
  return llvm::any_of(operationsOf(lowering, sinks), takesPolynomial);
}

int64_t stripOf(FunctionLowering &lowering, ArrayRef<const Sink *> sinks, int64_t widest) {
  const Machine &machine = lowering.emitter().machine;
  const int64_t narrow = kFunctionsSideBySide * machine.lanes;
  if (widest <= narrow || machine.registers > kFewRegisters) return widest;
  return takeFunctions(lowering, sinks) ? narrow : widest;
}

SmallVector<Operation *> rowAccesses(const FunctionLowering &lowering, ArrayRef<const Sink *> sinks) {
  SmallVector<Operation *> accesses;
  llvm::copy_if(operationsOf(lowering, sinks), std::back_inserter(accesses), [](Operation *op) {
    return isa<tile::LoadOp, tile::LoadRowsOp, tile::StoreOp, tile::StoreRowsOp, tile::ReduceAddOp>(op);
  });
  return accesses;
}

} // namespace tilewright::cpu
