#pragma once

#include "compiler/nvptx/ptx/store_target.h"
#include "compiler/nvptx/tile_gpu/layouts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/SaveAndRestore.h"

namespace tilewright::nvptx {

class Lowering;

/// What a tile repeats, or the tile itself.
Value withoutBroadcasts(Value tile);
/// What all elements of a tile are, if they are one constant of floating point.
std::optional<llvm::APFloat> constantOf(Value tile);
/// Whether a register and its neighbour, the other one of an even and an odd number, hold columns side by
/// side.
bool isPaired(TileLayout layout, int64_t column);
/// Positions on the left that are compared with a number from which what they begin at can be taken without
/// overflow: with any for equality, with a size for order as signed numbers.
tile::IotaOp positionsOf(mlir::arith::CmpIOp op);

/// The elements of tiles that a thread holds: a tile is a list of registers, row after row (see Layouts).
/// Element-wise ops, and loads that were put off, are evaluated when a register of them is first asked for.
class Elements {
public:
  explicit Elements(Lowering &lowering) : lowering(lowering) {}

  /// `row` and `column` may be registers of a larger tile, along axes of which this one has a single
  /// position.
  Value evaluate(Value tile, int64_t row, int64_t column);
  SmallVector<Value> evaluateAll(Value tile);
  void set(Value tile, SmallVector<Value> values) { registers[tile] = std::move(values); }
  bool hasFirst(Value tile) { return bool(registersOf(tile)[0]); }
  /// Loads registers from a row and a column on, or those of the sum that takes rows which may be absent.
  void load(mlir::Operation *load, int64_t row, int64_t column, StoreTarget::Piece piece);
  void load(mlir::Operation *load);
  /// What is made of several rows a thread can be made again, and is not to live beside accumulators.
  void forgetColumns();
  /// What `body` evaluates is not known behind it.
  void within(llvm::function_ref<void()> body);
  /// While this lives, numbers are rounded in pairs or not: then there are registers for one at a time only.
  [[nodiscard]] llvm::SaveAndRestore<bool> roundingPairs(bool inPairs) { return {roundsPairs, inPairs}; }

private:
  Value evaluateNew(Value tile, int64_t row, int64_t column);
  Value comparePosition(mlir::arith::CmpIOp op, tile::IotaOp iota, int64_t row, int64_t column);
  Value roundPair(mlir::arith::TruncFOp op, int64_t row, int64_t column, bool ofRows);
  Value cloneOnElements(mlir::Operation *op, int64_t row, int64_t column);
  SmallVector<Value> &registersOf(Value tile);
  void loadRow(mlir::Operation *load, int64_t row);
  mlir::arith::AddFOp sumOfPresentRows(mlir::Operation *load) const;
  mlir::Operation *addedRows(mlir::Operation *op) const;

  Lowering &lowering;
  mlir::DenseMap<Value, SmallVector<Value>> registers; ///< null where not evaluated yet
  bool roundsPairs = true;
};

} // namespace tilewright::nvptx
