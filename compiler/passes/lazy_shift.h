#pragma once

#include "compiler/passes/tile_builder.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tilewright {

/// A row's largest number m and s = Σ exp(x - a) of the blocks so far. The shift a is the largest number of
/// some of them, so m - a is at most 16.
struct LazySum {
  mlir::Value max, sum, shift;
};

/// One block more, whose shift is its own largest number or that of those before:
///
///     a' = max(a, max x)      s' = s·exp(a - a') + Σ exp(x - a')
///
/// `terms` gets the exponentials.
LazySum addBlock(TileBuilder &b, const LazySum &before, mlir::Value x, mlir::Value &terms);

/// One block more, gone over once, as the shift is there before its largest number is known:
///
///     a' = a      s' = s + Σ exp(x - a)      if max x ≤ a + 16
///
/// Else, and where the sum is a NaN, the block is gone over again, as addBlock does. The first block is
/// looked through for its largest number. `x` must be made anew in other regions, so nothing may overwrite
/// its memory before. `keep` stores the terms, once or twice.
LazySum addBlockLazily(TileBuilder &b, const LazySum &before, mlir::Value x,
                       llvm::function_ref<void(mlir::Value terms)> keep);

/// Σ exp(x - m), of the whole row.
mlir::Value sumOfMaximum(TileBuilder &b, const LazySum &row);

} // namespace tilewright
