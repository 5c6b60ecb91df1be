#include "compiler/passes/sweep_schedule.h"

#include "compiler/passes/tile_builder.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace tilewright {

bool ScheduledOp::isSink() const { return isLong && llvm::none_of(op->getResultTypes(), isLongTile); }

bool ScheduledOp::isReduction() const { return isSink() && op->getNumResults() > 0; }

namespace {

/// Whether each column of a long result hangs on that column of the operands alone, or it is a reduction or a
/// store.
bool isStreamable(Operation *op) {
  return isElementwise(op) ||
         isa<tile::LoadOp, tile::LoadRowsOp, tile::IotaOp, tile::BroadcastOp, tile::ReduceOp,
             tile::MaxSumExpOp, tile::StoreOp, tile::StoreRowsOp, tile::ReduceAddOp>(op);
}

LogicalResult checkStreamable(Operation *op) {
  if (isStreamable(op)) return success();
  InFlightDiagnostic error = op->emitOpError("cannot be computed block by block along a long row");
  if (isa<tile::GatherOp, tile::ScatterOp>(op)) return error << "; run gather-to-select before stream-rows";
  if (isa<tile::LogSoftmaxOp>(op)) return error << "; run decompose-softmax before stream-rows";
  return error;
}

/// Sets the one width of an operation's long tiles.
LogicalResult findWidth(ScheduledOp &scheduled) {
  Operation *op = scheduled.op;
  if (failed(checkWidths(op))) return failure();
  SmallVector<Value> widths;
  for (Value operand : op->getOperands())
    if (isLongTile(operand.getType())) widths.push_back(widthOf(operand));
  if (OpOperand *size = sizeOperand(op)) widths.push_back(size->get());
  for (Value width : widths) {
    if (sameValue(width, widths.front())) continue;
    InFlightDiagnostic error = op->emitOpError("needs long tiles of one width, found two");
    error.attachNote(widths.front().getLoc()) << "one width";
    error.attachNote(width.getLoc()) << "the other width";
    return error;
  }
  scheduled.width = widths.front();
  return success();
}

FailureOr<std::vector<ScheduledOp>> collect(Block &block) {
  std::vector<ScheduledOp> ops;
  for (Operation &op : block.without_terminator()) {
    ScheduledOp scheduled;
    scheduled.op = &op;
    scheduled.isLong =
        llvm::any_of(op.getOperandTypes(), isLongTile) || llvm::any_of(op.getResultTypes(), isLongTile);
    if (scheduled.isLong && (failed(checkStreamable(&op)) || failed(findWidth(scheduled)))) return failure();
    scheduled.accesses = memoryAccesses(&op);
    ops.push_back(std::move(scheduled));
  }
  Operation *end = block.getTerminator();
  if (llvm::any_of(end->getOperandTypes(), isLongTile))
    return end->emitOpError("lets a long tile leave its block; store it, or reduce its rows"), failure();
  return ops;
}

/// Raises sweep numbers from 0 to the least that respect data and memory, as rounds of a longest-path search.
class Scheduler {
public:
  explicit Scheduler(std::vector<ScheduledOp> &ops) : ops_(ops) {
    for (size_t i = 0; i < ops.size(); ++i)
      indexOf_[ops[i].op] = i;
    for (size_t i = 0; i < ops.size(); ++i)
      producers_.push_back(producersOf(ops[i].op));
  }

  LogicalResult run() {
    do {
      changed_ = false;
      for (size_t i = 0; i < ops_.size(); ++i)
        raiseSweep(i);
      for (size_t i = ops_.size(); i-- > 0;)
        raiseProducersLastSweep(i);
      for (ScheduledOp &op : ops_)
        if (op.sweep > static_cast<int>(ops_.size())) return reportCycle();
    } while (changed_);
    return success();
  }

private:
  /// The operations of the block whose results `op`, or a region of it, uses.
  SmallVector<size_t> producersOf(Operation *op) {
    llvm::SetVector<Value> values(op->operand_begin(), op->operand_end());
    getUsedValuesDefinedAbove(op->getRegions(), values);
    SmallVector<size_t> producers;
    for (Value value : values)
      if (auto it = indexOf_.find(value.getDefiningOp()); it != indexOf_.end())
        producers.push_back(it->second);
    return producers;
  }

  void raise(int &sweep, int least) {
    changed_ |= sweep < least;
    sweep = std::max(sweep, least);
  }

  void raiseSweep(size_t i) {
    ScheduledOp &op = ops_[i];
    for (size_t producer : producers_[i])
      raise(op.sweep, ops_[producer].sweep + (ops_[producer].isReduction() ? 1 : 0));
    for (size_t j = 0; j < i; ++j)
      raise(op.sweep, earliestAfter(ops_[j], op));
    raise(op.lastSweep, op.sweep);
  }

  void raiseProducersLastSweep(size_t i) {
    if (!ops_[i].isLong) return;
    for (size_t producer : producers_[i])
      if (ops_[producer].isLong && !ops_[producer].isSink())
        raise(ops_[producer].lastSweep, ops_[i].lastSweep);
  }

  /// The first sweep of `after` that keeps its memory behind that of `before`, which comes first in the
  /// program.
  int earliestAfter(const ScheduledOp &before, const ScheduledOp &after) {
    int earliest = 0;
    for (const MemoryAccess &a : before.accesses)
      for (const MemoryAccess &b : after.accesses)
        if (conflict(a, b) || (readsRows(before) && after.isLong && mayOverwrite(b, a)))
          earliest = std::max(earliest, before.lastSweep + (canShare(before, a, after, b) ? 0 : 1));
    return earliest;
  }

  /// Elements of a row are picked before the row is overwritten, as the row itself is loaded.
  static bool readsRows(const ScheduledOp &op) { return op.isLong || isa<tile::LoadElementsOp>(op.op); }

  /// Whether both may run in a sweep (or right before it) of one number: program order then orders the
  /// columns that one block has in common, and different blocks have none.
  bool canShare(const ScheduledOp &before, const MemoryAccess &a, const ScheduledOp &after,
                const MemoryAccess &b) {
    if (!before.isLong) return true;
    return after.isLong && a.column && b.column && sameValue(a.column, b.column) && a.element == b.element &&
           sameValue(before.width, after.width);
  }

  /// Only a load that must come again after a store, which must come after the load, raises without end;
  /// those two are the highest by now.
  LogicalResult reportCycle() {
    int highest = -1;
    std::pair<Operation *, Operation *> worst;
    for (size_t i = 0; i < ops_.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (int sweep = earliestAfter(ops_[j], ops_[i]);
            ops_[j].isLong && !ops_[j].isSink() && sweep > highest) {
          highest = sweep;
          worst = {ops_[j].op, ops_[i].op};
        }
    InFlightDiagnostic error = worst.second->emitOpError(
        "may overwrite a long row that is needed again after it; store it last, or load the row anew");
    error.attachNote(worst.first->getLoc()) << "the row is loaded here";
    return error;
  }

  std::vector<ScheduledOp> &ops_;
  llvm::DenseMap<Operation *, size_t> indexOf_;
  std::vector<SmallVector<size_t>> producers_;
  bool changed_ = false;
};

} // namespace

FailureOr<std::vector<ScheduledOp>> scheduleSweeps(Block &block) {
  FailureOr<std::vector<ScheduledOp>> ops = collect(block);
  if (failed(ops) || failed(Scheduler(*ops).run())) return failure();
  return ops;
}

} // namespace tilewright
