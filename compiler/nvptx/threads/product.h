#pragma once

#include "compiler/nvptx/threads/lowering.h"

namespace tilewright::nvptx {

/// Whether a value of a product's block, or of one around it, is there ahead of the product.
bool isAhead(Value value, tile::ContractOp product);
/// Whether an op loads rows by numbers of which hardly any is a row's.
bool isSparse(mlir::Operation *op);

/// One side of a `tile.contract`: positions [offset, …) along the free axis of a view.
struct Strip {
  MemoryView view;
  Num offset;                 ///< i64
  bool depthIsMinor;          ///< the contracted axis is contiguous in memory
  Num depth;                  ///< i64: elements of the contracted axis
  const layout::AxisMap *map; ///< of the accumulators along the free axis
  bool mayBeginAhead = false; ///< depths below 0 are asked for, too, and are zeros

  int64_t freeAxis() const { return depthIsMinor ? 0 : 1; }
  /// Uniform: rows, from the strip's beginning on, lie at multiples of 16 bytes.
  Value isAligned(Emitter &e) const;
  /// Of element (position, k), k counted from `first` (i64).
  Num address(Emitter &e, Num position, Num k, Num first) const;
  /// How many (i32) of `step` depths from `first` (i64) on there are.
  Num liveDepth(Emitter &e, Num first, int64_t step) const;
};

/// How a product's operands pass through shared memory, a *stage* of the contracted axis at a time, and are
/// multiplied from there. Another way to multiply is one more of these.
class StagedProduct {
public:
  virtual ~StagedProduct() = default;
  virtual int64_t step() const = 0;   ///< elements of the contracted axis in a stage
  virtual int64_t stages() const = 0; ///< at least 2
  virtual int64_t stageBytes() const = 0;
  /// Starts to copy elements [k, k + step) into a stage, zeros where there are none.
  virtual void copy(Num stage, Num k) = 0;
  /// accumulators + what the stage adds, in registers of the product's layout.
  virtual SmallVector<Value> multiply(Num stage, ValueRange accumulators) = 0;
};

/// A product whose two operands copy their depths one behind the other into a stage: each has `bytes` there,
/// and `copy`.
template <class Operand> class OperandProduct : public StagedProduct {
public:
  OperandProduct(Operand left, Operand right, int64_t step, int64_t stages)
      : left(std::move(left)), right(std::move(right)), depth(step), count(stages) {}

  int64_t step() const override { return depth; }
  int64_t stages() const override { return count; }
  int64_t stageBytes() const override { return left.bytes() + right.bytes(); }
  void copy(Num stage, Num k) override {
    left.copy(stage, k);
    right.copy(rightOf(stage), k);
  }

protected:
  Num rightOf(Num stage) { return stage + left.bytes(); }

  Operand left, right;

private:
  int64_t depth, count;
};

std::unique_ptr<StagedProduct> makeMmaProduct(Lowering &lowering, const Strip &left, const Strip &right);
std::unique_ptr<StagedProduct> makeTf32Product(Lowering &lowering, const Strip &left, const Strip &right);
std::unique_ptr<StagedProduct> makePanelProduct(Lowering &lowering, const Strip &left, const Strip &right);

/// Panels hold fp32 operands depth by depth: element (position, k) is the (k·panelStride + position)-th.
int64_t panelStride(const layout::AxisMap &map);
/// accumulators + Σ over `depth` of two panels, by fp32 multiply-adds.
SmallVector<Value> multiplyPanels(Lowering &lowering, TileLayout layout, Num left, Num right, int64_t depth,
                                  ValueRange accumulators);

/// The part of the contracted axis, of length `depth` (i64), that a product runs over: steps (i64) of `unit`,
/// of which tile::kPartUnit is a multiple.
struct PartSteps {
  Num begin, end;
};
PartSteps partSteps(Lowering &lowering, tile::ContractOp op, Num depth, int64_t unit = tile::kPartUnit);

/// The registers of the result.
SmallVector<Value> emitContract(Lowering &lowering, tile::ContractOp op);
/// Makes the registers of the result known, or of a sum that takes it alone.
void emitDot(Lowering &lowering, tile::DotOp op, const class CopiesAhead &ahead);

/// A tile's registers to shared memory, as numbers of 16 bits or as fp32: element (row, column) to
/// `place(row, column)`, of numbers of 16 bits two columns side by side at once.
void storeTile(Lowering &lowering, Value tile, bool asFp32, llvm::function_ref<Num(Num, Num)> place);

} // namespace tilewright::nvptx
