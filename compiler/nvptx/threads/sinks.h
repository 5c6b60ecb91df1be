#pragma once

#include "compiler/nvptx/threads/deferred_sums.h"
#include "compiler/nvptx/threads/sink_group.h"

namespace tilewright::nvptx {

/// Stores and reductions that wait to be emitted, in groups of which each goes over its registers once.
class Sinks {
public:
  explicit Sinks(Lowering &lowering) : lowering(lowering) {}

  void add(mlir::Operation *sink) { pending.push_back(sink); }
  /// Emits all that wait.
  void flush();
  /// Whether a reduction must be emitted before `value` can be evaluated.
  bool dependsOnPending(Value value) const;

  void setRole(WarpRole &warpRole) { role = &warpRole; }
  void enterLoop(const DeferredSums &sums) { loops.push_back(&sums); }
  void leaveLoop() { loops.pop_back(); }
  bool isInLoop() const { return !loops.empty(); }

private:
  using Group = SmallVector<mlir::Operation *>;
  bool isDeferred(mlir::Operation *reduce) const;
  tile::ReduceOp maximumBeside(mlir::Operation *sink, llvm::ArrayRef<mlir::Operation *> group) const;
  bool waits(mlir::Operation *sink, llvm::ArrayRef<mlir::Operation *> group) const;
  Group nextGroup() const;
  SinkGroup::Turn turnOf(mlir::Operation *sink, llvm::ArrayRef<mlir::Operation *> group) const;

  Lowering &lowering;
  WarpRole *role = nullptr;
  Group pending;
  SmallVector<const DeferredSums *> loops; ///< that are being lowered
};

} // namespace tilewright::nvptx
