#include "compiler/cpu/strips_in_pairs.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tilewright::cpu {

using namespace mlir;

static RankedTensorType wideTile(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getDimSize(1) > 1 ? type : RankedTensorType();
}

static bool touchesWideTile(Operation *op) {
  auto isWide = [](Value value) { return bool(wideTile(value)); };
  return llvm::any_of(op->getOperands(), isWide) || llvm::any_of(op->getResults(), isWide);
}

/// The same number in all columns.
static bool isUniform(Operation *op) { return isa<tile::BroadcastOp, tile::SplatOp, arith::ConstantOp>(op); }

/// The view of a load or store of whole tiles, null for other operations.
static Value accessedView(Operation *op) {
  if (isa<tile::LoadOp, tile::LoadRowsOp>(op)) return op->getOperand(0);
  if (isa<tile::StoreOp, tile::StoreRowsOp>(op)) return op->getOperand(1);
  return {};
}

static bool isOnChip(Value view) { return view.getDefiningOp<tile::OnChipOp>() != nullptr; }

/// Whether the operation means the same in any order of the columns.
static bool hasNoOrder(Operation *op) {
  if (isUniform(op)) return true;
  if (auto reduce = dyn_cast<tile::ReduceOp>(op)) return reduce.getAxis() == 1;
  if (Value view = accessedView(op)) {
    Type element = cast<tile::ViewType>(view.getType()).getElement();
    return tile::isInterior(op) && (element.isBF16() || (element.isF32() && isOnChip(view)));
  }
  if (isa<arith::ExtFOp>(op)) return wideTile(op->getOperand(0)).getElementType().isBF16();
  if (isa<arith::TruncFOp>(op)) return wideTile(op->getResult(0)).getElementType().isBF16();
  // Truth values of several registers are taken apart on processors without AVX-512.
  const bool isMath = isa<arith::ArithDialect, math::MathDialect>(op->getDialect());
  return isMath && op->getNumResults() == 1 && wideTile(op->getResult(0)).getElementType().isF32();
}

bool StripsInPairs::mayTakePairs(Block &block) const {
  bool hasRows = false;
  for (Operation &op : block) {
    if (!touchesWideTile(&op)) continue;
    if (!hasNoOrder(&op)) return false;
    for (Value operand : op.getOperands()) {
      if (!wideTile(operand)) continue;
      Operation *from = operand.getDefiningOp();
      if (!from || (from->getBlock() != &block && !isUniform(from))) return false;
      if (wideTile(operand).getDimSize(1) % columns != 0) return false;
    }
    for (Value result : op.getResults()) {
      if (!wideTile(result)) continue;
      if (wideTile(result).getDimSize(1) % columns != 0) return false;
      if (!isUniform(&op) &&
          llvm::any_of(result.getUsers(), [&](Operation *user) { return user->getBlock() != &block; }))
        return false;
    }
    Value view = accessedView(&op);
    hasRows |= view && cast<tile::ViewType>(view.getType()).getElement().isBF16();
  }
  return hasRows;
}

/// Whether all that accesses memory on chip agrees on its order. Where it does not, none of it takes pairs.
bool StripsInPairs::keepsOrder(Value memory) {
  auto accessesTiles = [&](Operation *user) { return touchesWideTile(user); };
  if (llvm::none_of(memory.getUsers(), accessesTiles)) return true;
  auto takesPairs = [&](Operation *user) {
    return accessedView(user) == memory && touchesWideTile(user) && contains(user->getBlock());
  };
  if (llvm::all_of(memory.getUsers(), takesPairs)) return true;
  bool changed = false;
  for (Operation *user : memory.getUsers())
    changed |= blocks.erase(user->getBlock());
  return !changed;
}

StripsInPairs::StripsInPairs(func::FuncOp kernel, const Machine &machine) : columns(2 * machine.lanes) {
  kernel.walk([&](Block *block) {
    if (mayTakePairs(*block)) blocks.insert(block);
  });
  SmallVector<Value> onChip;
  kernel.walk([&](tile::OnChipOp memory) {
    if (memory.getType().getElement().isF32()) onChip.push_back(memory.getResult());
  });
  while (!llvm::all_of(onChip, [&](Value memory) { return keepsOrder(memory); }))
    ;
}

} // namespace tilewright::cpu
