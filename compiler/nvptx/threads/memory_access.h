#pragma once

#include "compiler/nvptx/threads/lowering.h"

namespace tilewright::nvptx {

/// The columns that a sweep's accesses may reach without masks.
Num interiorColumns(Lowering &lowering, tile::InteriorOp op);

/// Two numbers of 16 bits as one of 32.
Value packPair(Emitter &e, Value low, Value high);
/// Low and high half of 32 bits, as numbers of 16.
SmallVector<Value> unpackPair(Emitter &e, Type element, Value word);

/// Whether a tile is held by each thread in vectors of 16 bytes, all of them its own.
bool canCopy(const Layouts &layouts, Value tile);

/// How one thread reaches its elements of the block that a load or store touches.
class MemoryAccess : public StoreTarget {
public:
  MemoryAccess(Lowering &lowering, mlir::Operation *op);

  /// Registers from a row and a column on, row after row; elements outside the view are zeros.
  SmallVector<Value> load(int64_t row, int64_t column, Piece piece);
  /// The same added to `sums`, which stay as they are in threads that have none of the rows: an addition of
  /// zeros takes as long as one of numbers.
  SmallVector<Value> addPresent(int64_t row, int64_t column, Piece piece, ValueRange sums);
  /// Brings a register row's part of the block to the second-level cache; threads that share the row deal its
  /// lines.
  void prefetch(int64_t row);
  /// i32: a bit for each of the register rows that lie in the view.
  Num presentRows();
  /// What is outside is dropped, and of replicas only one writes.
  void store(int64_t row, int64_t column, llvm::ArrayRef<SmallVector<Value>> values) override;
  Piece piece() const override { return {1, layout.columns->registers()}; }

  /// Copies what a load of vectors reads to where the store of it writes, without waiting; see canCopy.
  void copyTo(MemoryAccess store);

private:
  struct Row {
    Num address; ///< of this thread's first column
    Value live;  ///< null: always
  };
  Row rowAt(int64_t row);
  Num rowNumber(int64_t row);
  Value liveAt(const Row &row, int64_t column);
  void findColumns();
  void findGranule();
  void findVectors();
  Value uniformlyAligned();

  /// Registers [column, column + count) of a row.
  struct Stretch {
    int64_t column, count;
  };
  SmallVector<Value> load(llvm::ArrayRef<Row> rows, Stretch stretch);
  SmallVector<Value> loadRows(int64_t row, int64_t column, Piece piece);
  Value hasRows(int64_t row, Piece piece);
  SmallVector<Value> loadWords(Num address, int64_t offset, Type word, int64_t words, Value live);
  void storeWords(Num address, int64_t offset, ValueRange words, Value live);
  SmallVector<Value> loadVectors(const Row &row, Stretch stretch);
  SmallVector<Value> loadElements(const Row &row, Stretch stretch);
  void storeRow(const Row &row, int64_t column, ValueRange values);
  void storeVectors(const Row &row, int64_t column, ValueRange values);
  void storeElements(const Row &row, int64_t column, ValueRange values);
  SmallVector<Value> addTo(ValueRange old, ValueRange values);
  void unpack(ValueRange words, SmallVector<Value> &elements);
  SmallVector<Value> pack(ValueRange elements);
  Type wordType() const;
  void ifVectors(SmallVector<Type> results, llvm::function_ref<SmallVector<Value>()> vectors,
                 llvm::function_ref<SmallVector<Value>()> elements, SmallVector<Value> &values);

  Lowering &lowering;
  Emitter &e;
  mlir::Operation *op;
  const MemoryView &view;
  Type element;
  TileLayout layout;
  Value rowTile, columnTile;                            ///< that number rows or columns, of indirect accesses
  std::optional<Num> firstRow, firstColumn;             ///< i64
  Num columnLow{nullptr, {}}, columnCount{nullptr, {}}; ///< positions that lie inside the view
  Value isCanonical;   ///< of replicas, the one that writes; null: there are none
  int64_t granule = 1; ///< elements of a vector access
  Value vectorsFit;    ///< uniform; null: one way for all threads, by the granule
  bool isInterior;     ///< nothing lies outside the view
};

} // namespace tilewright::nvptx
