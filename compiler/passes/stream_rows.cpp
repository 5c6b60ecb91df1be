#include "compiler/passes/passes.h"
#include "compiler/passes/sweep_loop.h"
#include "compiler/passes/sweep_schedule.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/bit.h"

using namespace mlir;

namespace tilewright {
#define GEN_PASS_DEF_STREAMROWS
#include "compiler/passes/passes.h.inc"

namespace {

/// The operations that make `value`, a long tile, as far as they are long themselves; producers first.
void addLongProducers(Value value, llvm::SetVector<Operation *> &ops) {
  Operation *op = value.getDefiningOp();
  if (!op || !isLongTile(value.getType()) || ops.contains(op)) return;
  for (Value operand : op->getOperands())
    addLongProducers(operand, ops);
  ops.insert(op);
}

/// A load that moves into a region of `op` must read the same there.
LogicalResult checkMoves(Operation *load, Operation *op) {
  if (isMemoryEffectFree(load)) return success();
  auto end = isa<LoopLikeOpInterface>(op) ? std::next(op->getIterator()) : op->getIterator();
  Operation *writer = writerBetween(load, std::next(load->getIterator()), end);
  if (!writer) return success();
  InFlightDiagnostic error = writer->emitOpError("may overwrite a long row before its use");
  error.attachNote(load->getLoc()) << "the row is loaded here";
  error.attachNote(op->getLoc()) << "and used in this region";
  return error;
}

/// Gives each region of `op` its own copy of the long tiles it uses from outside: a loop ends where its
/// region does.
LogicalResult copyLongTilesInto(Operation *op) {
  for (Region &region : op->getRegions()) {
    if (region.empty()) continue;
    llvm::SetVector<Value> used;
    getUsedValuesDefinedAbove(region, used);
    llvm::SetVector<Operation *> producers;
    for (Value value : used)
      addLongProducers(value, producers);
    IRMapping copies;
    auto b = OpBuilder::atBlockBegin(&region.front());
    for (Operation *producer : producers) {
      if (failed(checkMoves(producer, op))) return failure();
      b.clone(*producer, copies);
    }
    for (auto [from, to] : copies.getValueMap())
      replaceAllUsesInRegionWith(from, to, region);
  }
  return success();
}

/// The widths of the rows that a sweep goes over, each once.
SmallVector<Value> widthsOf(ArrayRef<ScheduledOp> ops, int sweep) {
  SmallVector<Value> widths;
  for (const ScheduledOp &op : ops)
    if (op.isSink() && op.sweep == sweep &&
        llvm::none_of(widths, [&](Value w) { return sameValue(w, op.width); }))
      widths.push_back(op.width);
  return widths;
}

/// What a sweep over rows of `width` computes: its sinks and what they need, in program order.
SmallVector<Operation *> opsOf(ArrayRef<ScheduledOp> ops, int sweep, Value width) {
  llvm::DenseSet<Operation *> needed;
  SmallVector<Operation *> result;
  for (const ScheduledOp &op : llvm::reverse(ops)) {
    bool endsHere = op.isSink() && op.sweep == sweep && sameValue(op.width, width);
    if (!endsHere && !needed.contains(op.op)) continue;
    result.push_back(op.op);
    for (Value operand : op.op->getOperands())
      if (isLongTile(operand.getType())) needed.insert(operand.getDefiningOp());
  }
  std::reverse(result.begin(), result.end());
  return result;
}

int64_t mostRows(ArrayRef<Operation *> ops) {
  int64_t rows = 1;
  for (Operation *op : ops)
    for (Type type : op->getOperandTypes())
      if (isLongTile(type)) rows = std::max(rows, tile::rowsOf(type));
  return rows;
}

/// Bytes that one column of a sweep's rows loads, or stores when it loads none.
int64_t bytesOfColumn(ArrayRef<Operation *> ops) {
  int64_t loaded = 0, stored = 1;
  for (Operation *op : ops) {
    if (!columnOf(op)) continue;
    bool loads = isa<tile::LoadOp, tile::LoadRowsOp>(op);
    Type type = loads ? op->getResult(0).getType() : op->getOperand(0).getType();
    int64_t bits = std::max<int64_t>(8, tile::elementOf(type).getIntOrFloatBitWidth());
    (loads ? loaded : stored) += tile::rowsOf(type) * bits / 8;
  }
  return loaded ? loaded : stored;
}

struct StreamRows : impl::StreamRowsBase<StreamRows> {
  using StreamRowsBase::StreamRowsBase;

  void runOnOperation() override {
    if (failed(stream(getOperation()))) signalPassFailure();
  }

private:
  LogicalResult stream(func::FuncOp function) {
    if (interior < 0)
      return function.emitError("stream-rows: expected 0 or more blocks in one of the interior, found ")
             << interior.getValue();
    if (block < 0)
      return function.emitError("stream-rows: expected a block of 0 or more columns, found ")
             << block.getValue();
    if (partners < 1 || keptBytes < 0)
      return function.emitError(
                 "stream-rows: expected 1 or more partners and 0 or more bytes to keep, found ")
             << partners.getValue() << " and " << keptBytes.getValue();
    if (keptExponentials < 0)
      return function.emitError("stream-rows: expected 0 or more exponentials to keep, found ")
             << keptExponentials.getValue();
    if (partners > 1) function->setAttr(tile::kPartnersAttr, OpBuilder(function).getI64IntegerAttr(partners));
    for (Block &body : function.getBody())
      if (failed(copyIntoRegions(body))) return failure();
    // What has no users is in no sweep.
    IRRewriter rewriter(&getContext());
    (void)runRegionDCE(rewriter, function->getRegions());
    for (Block &body : function.getBody())
      if (failed(streamBlock(body))) return failure();
    function.walk(expandMaxSumExp);
    return success(!function.walk(checkStatic).wasInterrupted());
  }

  static LogicalResult copyIntoRegions(Block &body) {
    for (Operation &op : body) {
      if (failed(copyLongTilesInto(&op))) return failure();
      for (Region &region : op.getRegions())
        for (Block &nested : region)
          if (failed(copyIntoRegions(nested))) return failure();
    }
    return success();
  }

  LogicalResult streamBlock(Block &body) {
    for (Operation &op : body)
      for (Region &region : op.getRegions())
        for (Block &nested : region)
          if (failed(streamBlock(nested))) return failure();
    FailureOr<std::vector<ScheduledOp>> ops = scheduleSweeps(body);
    if (failed(ops)) return failure();
    if (llvm::any_of(*ops, [](const ScheduledOp &op) { return op.isLong; }))
      emitSweeps(*ops, body.getTerminator());
    return success();
  }

  /// Sweep by sweep: first what it waits for, then a loop for each width.
  void emitSweeps(ArrayRef<ScheduledOp> ops, Operation *end) {
    int last = 0;
    for (const ScheduledOp &op : ops)
      last = std::max(last, op.sweep);
    bool exchanged = false; ///< by the reductions of the sweep before
    SmallVector<Rows, 0> rows;
    auto rowsOfWidth = [&](Value width) -> Rows & {
      auto known = llvm::find_if(rows, [&](const Rows &r) { return sameValue(r.width, width); });
      return known != rows.end() ? *known : rows.emplace_back(rowsOf(ops, width, last));
    };
    for (int sweep = 0; sweep <= last; ++sweep) {
      for (const ScheduledOp &op : ops)
        if (!op.isLong && op.sweep == sweep) op.op->moveBefore(end);
      for (Value width : widthsOf(ops, sweep)) {
        SmallVector<Operation *> body = opsOf(ops, sweep, width);
        TileBuilder b(body.back()->getLoc(), end);
        Rows &shared = rowsOfWidth(width);
        if (partners > 1 && sweep > 0 && !exchanged) // what others wrote in the sweep before must be seen
          b.create<tile::ExchangeOp>(ValueRange(), ValueRange());
        exchanged = llvm::any_of(body, [](Operation *op) {
          return op->getNumResults() && !isLongTile(op->getResult(0).getType());
        });
        bool shares = partners > 1 || !shared.kept.loads.empty() || shared.kept.exponentials.sum;
        emitSweep(b, body, width, shares ? shared.blocks : blocksFor(body), partners, shared.kept);
      }
    }
    for (const ScheduledOp &op : llvm::reverse(ops))
      if (op.isLong) op.op->erase();
  }

  /// What sweeps over rows of one width have in common.
  struct Rows {
    Value width;
    SweepBlocks
        blocks; ///< of all sweeps, where they have something to share: those of the one that loads most
    KeptRows kept;
  };

  Rows rowsOf(ArrayRef<ScheduledOp> ops, Value width, int last) const {
    Rows rows;
    rows.width = width;
    for (int sweep = 0; sweep <= last; ++sweep) {
      SmallVector<Operation *> body = opsOf(ops, sweep, width);
      if (body.empty()) continue;
      SweepBlocks blocks = blocksFor(body);
      if (!rows.blocks.rest || blocks.rest < rows.blocks.rest) rows.blocks = blocks;
    }
    int64_t bytes = 0;
    for (const ScheduledOp &op : ops) {
      bool isLoad = isa<tile::LoadOp, tile::LoadRowsOp>(op.op) && op.isLong && sameValue(op.width, width);
      if (!isLoad || op.lastSweep == op.sweep) continue;
      auto view = cast<tile::ViewType>(op.op->getOperand(0).getType());
      if (view.getRank() != 2 || tile::rowsOf(op.op->getResult(0).getType()) != 1) continue;
      rows.kept.loads.push_back(op.op);
      bytes += view.getElement().getIntOrFloatBitWidth() / 8;
    }
    if (bytes && rows.blocks.interior)
      rows.kept.columns = keptBytes / bytes / rows.blocks.interior * rows.blocks.interior;
    if (!rows.kept.columns) rows.kept.loads.clear();
    KeptExponentials &exponentials = rows.kept.exponentials;
    exponentials.columns = keptExponentials;
    const bool hasRoom = rows.blocks.interior && keptExponentials >= rows.blocks.interior;
    if (hasRoom && partners == 1 && rows.kept.loads.empty()) exponentials.choose(ops, width);
    return rows;
  }

  SweepBlocks blocksFor(ArrayRef<Operation *> ops) const {
    const int64_t atOnce = 1024 / std::max<int64_t>(1, interior) / mostRows(ops);
    uint64_t columns = std::max<int64_t>(1, bytes ? bytes / bytesOfColumn(ops) : atOnce);
    int64_t rest = block ? int64_t(block) : std::max<int64_t>(64, llvm::bit_floor(columns));
    return {rest, rest * interior, cutLeftOut && partners == 1, lazyShift && partners == 1};
  }

  static WalkResult checkStatic(Operation *op) {
    SmallVector<Type> types(op->getResultTypes());
    for (Region &region : op->getRegions())
      for (Block &body : region)
        llvm::append_range(types, body.getArgumentTypes());
    for (Type type : types)
      if (isLongTile(type)) return op->emitOpError("has a long tile that could not be streamed: ") << type;
    return WalkResult::advance();
  }
};

} // namespace
} // namespace tilewright
