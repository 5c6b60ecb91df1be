#pragma once

#include <utility>

#include "compiler/dialect/tile_ops.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace tilewright {

/// Builds tile expressions at one place in the IR, so that a rewrite reads like its equation. `like` is a
/// tile whose shape, and width when it is long, the result takes.
class TileBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using Value = mlir::Value;
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;
  explicit TileBuilder(mlir::Operation *before) : ImplicitLocOpBuilder(before->getLoc(), before) {}

  Value index(int64_t value);
  /// A tile of `like`'s shape that holds `value` everywhere.
  Value full(Value like, mlir::TypedAttr value);
  Value full(Value like, mlir::Type element, double value);
  /// Repeats a column, a row or a 1×1 tile over `like`'s shape.
  Value spread(Value value, Value like);
  /// 0, 1, … along each row, in i32.
  Value positions(Value like);
  /// Where a column index (R×1) meets its position.
  Value at(Value index, Value like);
  /// Whether each index (R×1) lies inside a row of `like`.
  Value inside(Value index, Value like);
  /// An index value as a 1×1 tile of i32; it must be below 2^31.
  Value splat(Value index);
  Value reduce(tile::ReductionKind kind, Value x); ///< of each row
  /// {max x, Σ exp(x - max x)} of each row; `shifted` gets x - max x when it is wanted.
  std::pair<Value, Value> maxAndSum(Value x, Value *shifted = nullptr);
};

bool isLongTile(mlir::Type type);
/// The operand that gives a long result its width, or null.
mlir::OpOperand *sizeOperand(mlir::Operation *op);
/// The width of a long tile: the `size` it goes back to. Null when it is a block's argument.
mlir::Value widthOf(mlir::Value longTile);
/// An error at `op` when it has a long operand whose width nothing tells.
mlir::LogicalResult checkWidths(mlir::Operation *op);
/// Whether two values are equal by construction: the same, or made alike from the same operands.
bool sameValue(mlir::Value a, mlir::Value b);
bool isZero(mlir::Value index);
/// One operation on each element, of tiles of one shape.
bool isElementwise(mlir::Operation *op);

} // namespace tilewright
