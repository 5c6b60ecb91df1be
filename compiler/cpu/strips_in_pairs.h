#pragma once

#include "compiler/cpu/machine.h"
#include "compiler/dialect/tile_ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace tilewright::cpu {

/// The blocks of code that take the interior of bf16 rows in pairs.
///
/// A register of 2L bf16 numbers is L pairs. The first of each pair, shifted up, are L numbers of fp32; the
/// second, masked, are L more. Nothing crosses lanes, as it does where numbers are widened in their order. So
/// of each 2L columns an fp32 strip holds 0, 2, 4, …, then 1, 3, 5, …. Element-wise operations and reductions
/// along the row don't see that. Memory on chip holds fp32 numbers in this order; hence all code that
/// accesses such memory takes pairs, or none does.
class StripsInPairs {
public:
  StripsInPairs(mlir::func::FuncOp kernel, const Machine &machine);
  bool contains(mlir::Block *block) const { return blocks.contains(block); }

private:
  bool mayTakePairs(mlir::Block &block) const;
  bool keepsOrder(mlir::Value memory);

  int64_t columns; ///< of a register's pairs
  llvm::DenseSet<mlir::Block *> blocks;
};

} // namespace tilewright::cpu
