#pragma once

// Which part of a view a load or store touches; for this folder only.

#include "compiler/dsl/impl.h"

namespace tilewright {

struct Block {
  mlir::Value view;
  llvm::SmallVector<mlir::Value, 2> offsets;
  TileShape shape;
};

/// A block of a vector (by `range`), or of a matrix. None, with the error recorded, when view and ranges do
/// not fit.
std::optional<Block> vectorBlock(KernelBuilder::Impl &impl, const View &view, const Range &range,
                                 const char *operation);
std::optional<Block> matrixBlock(KernelBuilder::Impl &impl, const View &view, const Range &rows,
                                 const Range &columns, const char *operation);

/// Rows numbered by `index`, an Rx1 tile of i32: `offsets` is empty for a vector (`columns` null), else the
/// column.
struct NumberedRows {
  mlir::Value index;
  Block block;
};
std::optional<NumberedRows> numberedRows(KernelBuilder::Impl &impl, const View &view, const Tile &index,
                                         const Range *columns, const char *operation);

} // namespace tilewright
