// How FunctionLowering lowers a kernel for a team of warps that runs one program after the other.

#include "compiler/nvptx/threads/function_lowering.h"
#include "compiler/nvptx/threads/memory_access.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tilewright::nvptx {

using namespace mlir;

void FunctionLowering::enter(func::FuncOp function, const Team &team) {
  lowered = function;
  e.threadId = team.thread.value;
  e.teamBarrier = team.barrier;
  e.teamThreads = layouts_.threads();
  sharedBase = team.sharedMemory.value;
  bindParameters();
  teamEntry = e.i32(0).value;
}

void FunctionLowering::forgetPositions() {
  e.threadId = teamEntry = e.pinned(e.threadId);
  threadPositions.clear();
}

void FunctionLowering::prefetchBeside(tile::ContractOp product) {
  for (Operation &op : *product->getBlock()) {
    if (!isLoad(&op) || readsWritten(&op)) continue;
    auto rowsKnown = [&](tile::LoadRowsOp load) { // else it would wait for their numbers
      Operation *source = load.getRows().getDefiningOp();
      return source && source->getBlock() == product->getBlock() && source->isBeforeInBlock(product);
    };
    if (auto load = dyn_cast<tile::LoadRowsOp>(op); load && !rowsKnown(load)) continue;
    auto type = tile::tileType(op.getResult(0));
    TileLayout layout = layouts_.of(op.getResult(0));
    if (type.getDimSize(0) == 1 || type.getDimSize(1) == 1 || layout.columns->bits.empty()) continue;
    MemoryAccess access(*this, &op);
    for (int64_t row = 0; row < layout.rows->registers(); ++row)
      access.prefetch(row);
  }
}

LogicalResult FunctionLowering::lowerInvariant() {
  auto isInvariant = [&](Operation *op) {
    WalkResult varies = op->walk([&](Operation *inner) {
      bool reads = isLoad(inner) && writtenRoots.contains(rootOf(viewOf(inner)).getAsOpaquePointer());
      bool isProgram =
          isa<tile::ProgramIdOp, tile::ContractOp, tile::DotOp>(inner) || isStore(inner) || reads;
      bool fromOutside = llvm::any_of(inner->getOperands(), [&](Value operand) {
        Operation *source = operand.getDefiningOp();
        return source && !op->isAncestor(source) && !once.contains(source);
      });
      return isProgram || fromOutside ? WalkResult::interrupt() : WalkResult::advance();
    });
    return !varies.wasInterrupted() && !isa<scf::IfOp>(op);
  };
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (!isInvariant(&op)) continue;
    if (failed(lowerOps(op.getIterator(), std::next(op.getIterator())))) return failure();
    once.insert(&op);
  }
  flush();
  for (Operation *op : once) // what is put off would be repeated for each program
    for (Value result : op->getResults())
      if (isTile(result) && layouts_.of(result).registers() == 1) evaluateAll(result);
  return success();
}

Value FunctionLowering::invariantCondition() {
  scf::IfOp only;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (once.contains(&op)) continue;
    auto branch = dyn_cast<scf::IfOp>(op);
    if (isStore(&op) || (op.getNumRegions() && !branch) || (branch && only)) return {};
    if (branch) only = branch;
  }
  return only ? invariantPart(only.getCondition()) : Value();
}

/// Canonical IR has one branch on a & b for a branch within another.
Value FunctionLowering::invariantPart(Value condition) {
  Operation *source = condition.getDefiningOp();
  if (source && once.contains(source)) {
    Value lowered = scalars.lookupOrDefault(condition);
    scalars.map(condition, e.truth(true));
    return lowered;
  }
  auto both = dyn_cast_or_null<arith::AndIOp>(source);
  if (!both) return {};
  Value left = invariantPart(both.getLhs());
  return left ? left : invariantPart(both.getRhs());
}

LogicalResult FunctionLowering::lowerProgram(ArrayRef<Num> ids, WarpRole &warpRole) {
  role = &warpRole;
  programIds.assign(ids.begin(), ids.end());
  Block &body = kernel.getBody().front();
  LogicalResult result = lowerOps(body.begin(), body.without_terminator().end());
  flush();
  return result;
}

} // namespace tilewright::nvptx
