#pragma once

#include "compiler/cpu/nest_plan.h"

namespace tilewright::cpu {

/// Whether the nest's rows are taken in pairs (StripsInPairs).
bool takesPairs(const FunctionLowering &lowering, const NestPlan &plan);

/// Columns that a nest's loops take at once: a vector, or several side by side in the interior of streamed
/// rows. Polynomials and reductions are long chains, of which a processor sees too few at once.
int64_t widestStrip(FunctionLowering &lowering, const NestPlan &plan);

/// Whether a phase with these sinks evaluates functions, by polynomials.
bool takeFunctions(const FunctionLowering &lowering, llvm::ArrayRef<const Sink *> sinks);

/// Columns that one phase with these sinks takes at once: fewer where it evaluates functions, whose
/// polynomials' numbers leave no registers for more.
int64_t stripOf(FunctionLowering &lowering, llvm::ArrayRef<const Sink *> sinks, int64_t widest);

/// The loads and stores of rows that a phase with these sinks consists of.
llvm::SmallVector<mlir::Operation *> rowAccesses(const FunctionLowering &lowering,
                                                 llvm::ArrayRef<const Sink *> sinks);

} // namespace tilewright::cpu
