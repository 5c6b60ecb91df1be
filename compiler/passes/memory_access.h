#pragma once

#include "compiler/dialect/tile_ops.h"

namespace tilewright {

/// One view that an operation, or something in its regions, reads or writes. Views made of one
/// parameter share memory. Those of different parameters share none, or are one tensor which the kernel
/// overwrites in place.
struct MemoryAccess {
  mlir::Value parameter; ///< null: anything
  bool writes = false;
  mlir::Value column; ///< where a long tile begins in its row; null for all else
  mlir::Type element; ///< of the view: positions in views of other elements are other places
};

llvm::SmallVector<MemoryAccess> memoryAccesses(mlir::Operation *op);

/// Where the row of a load or store begins in its view; null for other operations and for vectors' elements.
mlir::Value columnOf(mlir::Operation *op);

/// Whether the order of two accesses matters.
inline bool conflict(const MemoryAccess &a, const MemoryAccess &b) {
  return (a.writes || b.writes) && (!a.parameter || !b.parameter || a.parameter == b.parameter);
}

/// Whether `write` may overwrite what `read`, which comes before it, has read: of the same parameter, or in
/// place by way of another one of the same type, a long row by a long row.
bool mayOverwrite(const MemoryAccess &write, const MemoryAccess &read);

/// The first of the operations from `begin` to `end` that may write what `load` reads; null if none does.
mlir::Operation *writerBetween(mlir::Operation *load, mlir::Block::iterator begin, mlir::Block::iterator end);

} // namespace tilewright
