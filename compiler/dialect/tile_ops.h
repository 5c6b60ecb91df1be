#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir {
class PatternRewriter;
} // namespace mlir

#include "compiler/dialect/tile_dialect.h.inc"
#include "compiler/dialect/tile_enums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "compiler/dialect/tile_types.h.inc"

namespace tilewright::tile {

/// Attributes of a kernel, as the dialect's description says.
constexpr llvm::StringLiteral kKernelAttr = "tile.kernel";
/// On an access of memory: all that it touches lies inside the view, and is aligned for vectors.
constexpr llvm::StringLiteral kInteriorAttr = "interior";
inline bool isInterior(mlir::Operation *op) { return op->hasAttr(kInteriorAttr); }
/// On a maximum or minimum along rows: NaNs are left out. Only a CPU's lowering knows it.
constexpr llvm::StringLiteral kNumbersOnlyAttr = "numbers_only";
/// On a load of rows by their numbers: hardly any of them is a row of the view.
constexpr llvm::StringLiteral kSparseRowsAttr = "sparse_rows";
constexpr llvm::StringLiteral kGridAttr = "tile.grid";
/// Of a loop: no two iterations touch the same columns of a view that one of them writes.
constexpr llvm::StringLiteral kSweepAttr = "tile.sweep";
/// Of a kernel whose programs several partners run: how many.
constexpr llvm::StringLiteral kPartnersAttr = "tile.partners";
constexpr llvm::StringLiteral kNameAttr = "tile.name";
constexpr llvm::StringLiteral kWrittenAttr = "tile.written";

/// Parts of a product's contracted axis begin at multiples of this.
constexpr int64_t kPartUnit = 64;

/// What the type constraints in tile_types.td accept.
bool isTile(mlir::Type type);
bool isFloatTile(mlir::Type type);
bool isF32Tile(mlir::Type type);
bool isI32Tile(mlir::Type type);
bool isNumberTile(mlir::Type type);
bool isScalarTile(mlir::Type type);
bool isColumnTile(mlir::Type type);
bool isIndexColumn(mlir::Type type);

/// A tile type's parts. Columns may be ShapedType::kDynamic.
inline mlir::RankedTensorType tileType(mlir::Value tile) {
  return llvm::cast<mlir::RankedTensorType>(tile.getType());
}
inline int64_t rowsOf(mlir::Type tile) { return llvm::cast<mlir::RankedTensorType>(tile).getDimSize(0); }
inline int64_t columnsOf(mlir::Type tile) { return llvm::cast<mlir::RankedTensorType>(tile).getDimSize(1); }
inline mlir::Type elementOf(mlir::Type tile) {
  return llvm::cast<mlir::RankedTensorType>(tile).getElementType();
}
inline bool isLong(mlir::Type tile) { return mlir::ShapedType::isDynamic(columnsOf(tile)); }

/// The memory of a view: the kernel's parameter that it is a view of, or what made it on chip.
mlir::Value rootOf(mlir::Value view);
/// The view that `view` is made from, at whatever remove, that has the same size along `axis`.
mlir::Value withSameSize(mlir::Value view, uint64_t axis);
/// The view that a load or store touches, and the tile that it loads or stores.
mlir::Value viewOf(mlir::Operation *access);
mlir::Value tileOf(mlir::Operation *access);
/// Whether two loads or stores touch one memory, but equal elements of their tiles not surely one place:
/// blocks lie elsewhere, or are of elements of another type.
bool touchOtherPlaces(mlir::Operation *a, mlir::Operation *b);

} // namespace tilewright::tile

#define GET_OP_CLASSES
#include "compiler/dialect/tile_ops.h.inc"
