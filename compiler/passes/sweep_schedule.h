#pragma once

#include "compiler/passes/memory_access.h"

namespace tilewright {

/// An operation of a block in a plan that computes long tiles in sweeps: loops over the columns of a row,
/// numbered in the order in which they run.
struct ScheduledOp {
  mlir::Operation *op = nullptr;
  bool isLong = false; ///< has a long operand or result, so it is computed inside a sweep
  mlir::Value width;   ///< of its long tiles
  int sweep = 0;       ///< long: the first sweep it may be computed in; else: runs just before this sweep
  int lastSweep = 0;   ///< of a long value: the last sweep that computes it again for its users
  llvm::SmallVector<MemoryAccess> accesses;

  /// Ends in a sweep: reduces a row or writes memory. Other long operations are computed where these need
  /// them.
  bool isSink() const;
  bool isReduction() const;
};

/// Plans a block's operations, but for its terminator, in program order. An operation that cannot be computed
/// block by block, tiles of different widths, and memory that no order of sweeps respects are errors at the
/// operation.
mlir::FailureOr<std::vector<ScheduledOp>> scheduleSweeps(mlir::Block &block);

} // namespace tilewright
