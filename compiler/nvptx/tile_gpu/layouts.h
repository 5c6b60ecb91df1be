#pragma once

#include <memory>

#include "compiler/dialect/tile_ops.h"
#include "compiler/layout/axis_map.h"
#include "compiler/nvptx/tile_gpu/lowering_options.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

namespace tilewright::nvptx {

bool isTile(mlir::Value value);

/// A thread may hold so many numbers of one tile: more than twice what it has registers in all.
constexpr int64_t kMostRegisters = 512;
/// Rows and columns of a product by multiply-adds are held in runs of so many.
constexpr int64_t kRegisterTileRun = 4;

/// Whether every tile of a kernel is one that threads can hold; an error says which is not.
mlir::LogicalResult checkTiles(mlir::func::FuncOp kernel);

/// Who holds which elements of a tile: see AxisMap.
struct TileLayout {
  const layout::AxisMap *rows = nullptr, *columns = nullptr;
  int64_t registers() const { return rows->registers() * columns->registers(); }
  int64_t threadMask() const { return rows->threadMask() | columns->threadMask(); }
};
inline bool operator==(const TileLayout &a, const TileLayout &b) {
  return a.rows == b.rows && a.columns == b.columns;
}

/// The layout of every tile of a kernel, as attributes say that assign-layouts wrote.
///
/// Axes of tiles that meet element by element are one *axis class* and have one map, so a tile never has to
/// change its layout but where its axes change places. A class that a product makes has the map of the
/// product's accumulators; other columns are dealt out in runs as long as the widest access, rows to the
/// threads that are left.
class Layouts {
public:
  /// Those that are written on the kernel.
  explicit Layouts(mlir::func::FuncOp kernel);
  /// Those that assign-layouts would write, whatever is written.
  Layouts(mlir::func::FuncOp kernel, const LoweringOptions &options);
  /// Writes them on the kernel, with conversions behind products. An error says which is none.
  mlir::LogicalResult write(mlir::func::FuncOp kernel) const;
  int threads() const { return 1 << threadBits_; }
  /// Null maps for a tile of which nothing is written.
  TileLayout of(mlir::Value tile) const { return layouts_.lookup(tile); }
  /// Of a product's accumulators, which are converted where what uses them has another layout: when it has
  /// one row or column, or when another product gave it one.
  TileLayout ofProduct(mlir::Operation *product) const { return products_.lookup(product); }

private:
  friend class LayoutAssigner;
  int threadBits_ = 5;
  layout::AxisMap single_;                             ///< of an axis of one position
  std::vector<std::unique_ptr<layout::AxisMap>> maps_; ///< that no attribute keeps
  llvm::DenseMap<mlir::Value, TileLayout> layouts_;
  llvm::DenseMap<mlir::Operation *, TileLayout> products_;
};

/// Whether the lowering can go by what is written on a kernel: every tile has a layout of no more registers
/// than a thread can work on, tiles that meet have the same, and products are held as their instructions
/// leave them. An error says what is not so.
mlir::LogicalResult checkLayouts(mlir::func::FuncOp kernel, const LoweringOptions &options);

} // namespace tilewright::nvptx
