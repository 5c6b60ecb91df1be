#pragma once

#include "compiler/nvptx/ptx/emitter.h"

namespace tilewright::nvptx {

/// Where the registers of a tile go that the kernel stores or adds to memory, a piece at a time.
class StoreTarget {
public:
  virtual ~StoreTarget() = default;

  /// Registers along the rows and the columns that a piece has.
  struct Piece {
    int64_t rows, columns;
  };
  virtual Piece piece() const = 0;
  /// Comes before the first of a piece's stores, the piece's first row and column.
  virtual void open(int64_t /*row*/, int64_t /*column*/) {}
  /// values[r][c]: what register (row + r, column + c) of the tile holds; some rows of a piece, all columns.
  virtual void store(int64_t row, int64_t column, llvm::ArrayRef<SmallVector<Value>> values) = 0;
  /// Comes behind the last of a piece's stores.
  virtual void close(int64_t /*row*/, int64_t /*column*/) {}
};

} // namespace tilewright::nvptx
