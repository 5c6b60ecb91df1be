#pragma once

#include "compiler/dialect/tile_ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace tilewright::nvptx {

using tile::rootOf;
using tile::tileOf;
using tile::viewOf;

/// Ops that are evaluated an element at a time wherever they are needed.
bool isElementwise(mlir::Operation *op);
bool isLoad(mlir::Operation *op);
bool isStore(mlir::Operation *op);
/// Whether a parameter of a kernel, or of a part of one, is written by the whole kernel.
bool isWritten(mlir::BlockArgument parameter);
/// Whether a load reads a block that goes into nothing but what a store of the same block replaces it with,
/// and stores beside that at the same place of other matrices: it may then be read as late as these need it.
bool isReplaced(mlir::Operation *load);

/// Which memory a kernel reads and writes, and what that means for its loads.
class KernelMemory {
public:
  explicit KernelMemory(mlir::func::FuncOp kernel);

  bool hasProducts() const { return hasProducts_; }
  /// Whether the kernel stores to what `rootOf` gave.
  bool isWritten(mlir::Value root) const { return written.contains(root.getAsOpaquePointer()); }
  /// Whether what a load reads may have changed by the time that a register of it is needed.
  bool readsWritten(mlir::Operation *load) const;
  /// Whether loads read this matrix beside a product's operands.
  bool isReadBeside(mlir::Value root) const;

private:
  llvm::SmallPtrSet<void *, 4> written, readMatrices;
  bool hasProducts_ = false;
};

} // namespace tilewright::nvptx
