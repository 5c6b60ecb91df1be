#pragma once

#include "compiler/cpu/function_lowering.h"

namespace tilewright::cpu {

/// What makes a nest do something.
struct Sink {
  enum class Kind {
    store,       ///< `op` is a StoreOp, StoreRowsOp or ReduceAddOp of `value`
    reduce,      ///< `op` is a ReduceOp of `value`
    materialise, ///< `value` goes to a buffer
  };
  Kind kind;
  mlir::Operation *op = nullptr;
  Value value;
};

/// Sinks that share a loop nest of rows × columns.
struct NestPlan {
  int64_t rows = 1, columns = 1;
  llvm::SmallVector<Sink> sinks;

  bool contains(mlir::Operation *reduce) const;
};

/// The sinks of a cluster as nests in order. What one nest makes and a later one needs becomes a materialise
/// sink.
llvm::SmallVector<NestPlan> planNests(const FunctionLowering &lowering,
                                      llvm::ArrayRef<mlir::Operation *> cluster);

} // namespace tilewright::cpu
