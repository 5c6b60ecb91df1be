#include "compiler/nvptx/threads/team_lowering.h"

#include "compiler/nvptx/threads/memory_access.h"
#include "compiler/nvptx/threads/product.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tilewright::nvptx {

using namespace mlir;

void TeamLowering::enter(func::FuncOp lowered, const Team &team) {
  e.threadId = team.thread.value;
  e.teamBarrier = team.barrier;
  e.teamThreads = lowering().layouts().threads();
  lowering().begin(lowered, team.sharedMemory);
}

void prefetchBeside(Lowering &lowering, tile::ContractOp product) {
  for (Operation &op : *product->getBlock()) {
    if (!isLoad(&op) || lowering.memory().readsWritten(&op)) continue;
    // Else it would wait for the rows' numbers; those of sparse rows are looked at behind the product.
    auto rows = dyn_cast<tile::LoadRowsOp>(op);
    if (rows && (isSparse(&op) || !isAhead(rows.getRows(), product))) continue;
    auto type = tile::tileType(op.getResult(0));
    TileLayout layout = lowering.layouts().of(op.getResult(0));
    if (type.getDimSize(0) == 1 || type.getDimSize(1) == 1 || layout.columns->bits.empty()) continue;
    MemoryAccess access(lowering, &op);
    for (int64_t row = 0; row < layout.rows->registers(); ++row)
      access.prefetch(row);
  }
}

LogicalResult TeamLowering::lowerInvariant() {
  auto isInvariant = [&](Operation *op) {
    WalkResult varies = op->walk([&](Operation *inner) {
      bool reads = isLoad(inner) && lowering().memory().isWritten(rootOf(viewOf(inner)));
      bool isProgram =
          isa<tile::ProgramIdOp, tile::ContractOp, tile::DotOp>(inner) || isStore(inner) || reads;
      bool fromOutside = llvm::any_of(inner->getOperands(), [&](Value operand) {
        Operation *source = operand.getDefiningOp();
        return source && !op->isAncestor(source) && !walk.isSkipped(source);
      });
      return isProgram || fromOutside ? WalkResult::interrupt() : WalkResult::advance();
    });
    return !varies.wasInterrupted() && !isa<scf::IfOp>(op);
  };
  SmallVector<Operation *> invariant;
  for (Operation &op : lowering().function().getBody().front().without_terminator()) {
    if (!isInvariant(&op)) continue;
    if (failed(walk.lowerOps(op.getIterator(), std::next(op.getIterator())))) return failure();
    walk.skip(&op);
    invariant.push_back(&op);
  }
  walk.flush();
  for (Operation *op : invariant) // what is put off would be repeated for each program
    for (Value result : op->getResults())
      if (isTile(result) && lowering().layouts().of(result).registers() == 1)
        lowering().elements().evaluateAll(result);
  return success();
}

Value TeamLowering::invariantCondition() {
  scf::IfOp only;
  for (Operation &op : lowering().function().getBody().front().without_terminator()) {
    if (walk.isSkipped(&op)) continue;
    auto branch = dyn_cast<scf::IfOp>(op);
    if (isStore(&op) || (op.getNumRegions() && !branch) || (branch && only)) return {};
    if (branch) only = branch;
  }
  return only ? invariantPart(only.getCondition()) : Value();
}

/// Canonical IR has one branch on a & b for a branch within another.
Value TeamLowering::invariantPart(Value condition) {
  Operation *source = condition.getDefiningOp();
  if (source && walk.isSkipped(source)) {
    Value lowered = lowering().mapped(condition);
    lowering().setScalar(condition, e.truth(true));
    return lowered;
  }
  auto both = dyn_cast_or_null<arith::AndIOp>(source);
  if (!both) return {};
  Value left = invariantPart(both.getLhs());
  return left ? left : invariantPart(both.getRhs());
}

LogicalResult TeamLowering::lowerProgram(ArrayRef<Num> programIds, WarpRole &role) {
  walk.enterProgram(programIds, role);
  Block &body = lowering().function().getBody().front();
  LogicalResult result = walk.lowerOps(body.begin(), body.without_terminator().end());
  walk.flush();
  return result;
}

LogicalResult TeamLowering::lowerAfter(Operation *op) {
  auto end = op->getBlock()->without_terminator().end();
  LogicalResult result = walk.lowerOps(std::next(op->getIterator()), end);
  walk.flush();
  return result;
}

} // namespace tilewright::nvptx
