#pragma once

#include "compiler/nvptx/threads/product.h"

namespace tilewright::nvptx {

/// One `mma.sync`: 16×8 += 16×depth · depth×8.
struct MmaInstruction {
  int64_t depth;
  std::string type; ///< of both operands
};

/// Of a warp's accumulators those in rows 2m, 2m + 1 and columns 2n, 2n + 1 of the registers: 16 rows by 8.
struct AccumulatorBlock {
  llvm::SmallVectorImpl<Value> &sums;
  int64_t columns; ///< registers along a row
  int64_t m, n;
  Value &operator[](int64_t i) const { return sums[(2 * m + i / 2) * columns + 2 * n + i % 2]; }
};

/// block += left · right .
void addFragments(Emitter &e, const MmaInstruction &instruction, const AccumulatorBlock &block,
                  ValueRange left, ValueRange right);

/// A product by `mma.sync`. An Operand has in a stage the `fragments` of one instruction's depth: a list for
/// each 16 rows on the left, for each 8 columns on the right.
template <class Operand> class FragmentProduct : public OperandProduct<Operand> {
public:
  FragmentProduct(Lowering &lowering, const TileLayout &layout, Operand left, Operand right,
                  MmaInstruction instruction, int64_t step, int64_t stages)
      : OperandProduct<Operand>(std::move(left), std::move(right), step, stages), e(lowering.emitter()),
        rows(layout.rows), columns(layout.columns), instruction(std::move(instruction)) {}

  SmallVector<Value> multiply(Num stage, ValueRange accumulators) override {
    SmallVector<Value> sums(accumulators);
    for (int64_t k = 0; k < this->step(); k += instruction.depth) {
      auto left = this->left.fragments(stage, k), right = this->right.fragments(this->rightOf(stage), k);
      for (int64_t m = 0; m < rows->registers() / 2; ++m)
        for (int64_t n = 0; n < columns->registers() / 2; ++n)
          addFragments(e, instruction, {sums, columns->registers(), m, n}, left[m], right[n]);
    }
    return sums;
  }

private:
  Emitter &e;
  const layout::AxisMap *rows, *columns;
  MmaInstruction instruction;
};

} // namespace tilewright::nvptx
