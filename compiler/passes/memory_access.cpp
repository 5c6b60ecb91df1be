#include "compiler/passes/memory_access.h"

#include "compiler/passes/tile_builder.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tilewright {

namespace {

bool touchesLongTile(Operation *op) {
  return llvm::any_of(op->getOperandTypes(), isLongTile) || llvm::any_of(op->getResultTypes(), isLongTile);
}

void addAccesses(Operation *op, SmallVector<MemoryAccess> &accesses) {
  if (isMemoryEffectFree(op) || op->hasTrait<OpTrait::HasRecursiveMemoryEffects>()) return;
  bool writes = !hasSingleEffect<MemoryEffects::Read>(op);
  Value column = touchesLongTile(op) ? columnOf(op) : Value();
  size_t before = accesses.size();
  for (Value operand : op->getOperands())
    if (auto view = dyn_cast<tile::ViewType>(operand.getType()))
      accesses.push_back({tile::rootOf(operand), writes, column, view.getElement()});
  if (accesses.size() == before) accesses.push_back({Value(), writes, Value(), Type()});
}

} // namespace

Value columnOf(Operation *op) {
  return TypeSwitch<Operation *, Value>(op)
      .Case<tile::LoadOp, tile::StoreOp, tile::ReduceAddOp>(
          [](auto block) { return block.getOffsets().back(); })
      .Case<tile::LoadRowsOp, tile::StoreRowsOp>([](auto rows) { return rows.getColumn(); })
      .Default([](Operation *) { return Value(); });
}

SmallVector<MemoryAccess> memoryAccesses(Operation *op) {
  SmallVector<MemoryAccess> accesses;
  op->walk([&](Operation *inner) { addAccesses(inner, accesses); });
  return accesses;
}

bool mayOverwrite(const MemoryAccess &write, const MemoryAccess &read) {
  if (conflict(write, read)) return true;
  return write.writes && !read.writes && write.parameter.getType() == read.parameter.getType() &&
         (write.column || !read.column);
}

Operation *writerBetween(Operation *load, Block::iterator begin, Block::iterator end) {
  SmallVector<MemoryAccess> reads = memoryAccesses(load);
  for (Operation &op : llvm::make_range(begin, end))
    for (const MemoryAccess &access : memoryAccesses(&op))
      if (llvm::any_of(reads, [&](const MemoryAccess &read) { return mayOverwrite(access, read); }))
        return &op;
  return nullptr;
}

} // namespace tilewright
