// Products of two tiles: by mma.sync where both hold numbers of one 16-bit type, else by fp32 multiply-adds.

#include "compiler/nvptx/exchange.h"
#include "compiler/nvptx/fragment_product.h"
#include "compiler/nvptx/line_operand.h"
#include "compiler/nvptx/memory_access.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tilewright::nvptx {

using namespace mlir;
using layout::AxisMap;
using layout::SharedTile;
using layout::Side;

namespace {

constexpr int64_t kBytes = 2, kChunk = 8, kFragmentDepth = 16;

/// A tile's registers to shared memory, as numbers of 16 bits or as fp32: element (row, column) to
/// `place(row, column)`, of numbers of 16 bits two columns side by side at once.
void storeTile(FunctionLowering &lowering, Value tile, bool asFp32, llvm::function_ref<Num(Num, Num)> place) {
  Emitter &e = lowering.emitter();
  const TileLayout from = lowering.layouts().of(tile);
  const int64_t replicas = (lowering.layouts().threads() - 1) & ~from.threadMask();
  Value writes = replicas ? (e.thread() & replicas) == 0 : e.truth(true);
  for (int64_t r = 0; r < from.rows->registers(); ++r)
    for (int64_t c = 0; c < from.columns->registers(); ++c) {
      Num row = lowering.position(*from.rows, r), column = lowering.position(*from.columns, c);
      Value live = e.both(e.both(writes, row < from.rows->extent), column < from.columns->extent);
      Value value = lowering.evaluate(tile, r, c);
      if (asFp32)
        value = value.getType().isF32() ? value : e.widen(value);
      else if (c % 2 == 0 && isPaired(from, c))
        value = packPair(e, value, lowering.evaluate(tile, r, ++c));
      else
        value = e.bitcast(e.b.getIntegerType(16), value);
      e.storeSharedIf(live, place(row, column), value);
    }
}

/// The left operand M×K: in the registers that the product's accumulators have in its rows and K columns,
/// which are what mma.sync takes, or by way of shared memory.
class LeftTile {
public:
  LeftTile(FunctionLowering &lowering, tile::DotOp op, const AxisMap &rows)
      : lowering(lowering), e(lowering.emitter()), tile(op.getA()),
        rows(rows), lines{rows.span(), tile::columnsOf(tile.getType()) % 64 == 0 ? 64 : 32, true} {
    const TileLayout layout = lowering.layouts().of(tile);
    isInRegisters = *layout.rows == rows &&
                    *layout.columns == layout::accumulatorColumns(tile::columnsOf(tile.getType()), {});
  }

  int64_t bytes() const {
    return isInRegisters ? 0 : tile::columnsOf(tile.getType()) / lines.depth * lines.bytes();
  }

  void store(Num shared) {
    if (isInRegisters) return;
    storeTile(lowering, tile, /*asFp32=*/false, [&](Num row, Num k) {
      Num inside = k % lines.depth;
      return shared + k / lines.depth * lines.bytes() + lines.offset(row, inside) + inside % kChunk * kBytes;
    });
  }

  SmallVector<SmallVector<Value>> fragments(Num shared, int64_t k) {
    if (isInRegisters) return fragmentsOfRegisters(k);
    return loadFragments(lowering, rows, lines, Side::left, shared + k / lines.depth * lines.bytes(),
                         k % lines.depth);
  }

private:
  /// Register q of a fragment: rows g + 8·(q%2), depth 2t + 8·(q/2) and the next (see fragments.h); of
  /// accumulators these are row register q%2 of two and column registers 2·(q/2) and the next of four.
  SmallVector<SmallVector<Value>> fragmentsOfRegisters(int64_t k) {
    SmallVector<SmallVector<Value>> result;
    for (int64_t m = 0; m < rows.registers() / 2; ++m) {
      SmallVector<Value> words;
      for (int64_t q = 0; q < 4; ++q) {
        const int64_t row = 2 * m + q % 2, column = k / 4 + q / 2 * 2;
        Value low = lowering.evaluate(tile, row, column), high = lowering.evaluate(tile, row, column + 1);
        words.push_back(packPair(e, low, high));
      }
      result.push_back(words);
    }
    return result;
  }

  FunctionLowering &lowering;
  Emitter &e;
  Value tile;
  const AxisMap &rows;
  SharedTile lines;
  bool isInRegisters;
};

/// The right operand K×N, in lines along N: copied from memory without passing through registers where it is
/// a load of memory that the kernel does not write.
class RightTile {
public:
  RightTile(FunctionLowering &lowering, tile::DotOp op, const AxisMap &columns)
      : lowering(lowering), e(lowering.emitter()), tile(op.getB()),
        columns(columns), lines{columns.span(), tile::rowsOf(tile.getType()), false} {
    auto load = tile.getDefiningOp<tile::LoadOp>();
    if (!load || lowering.readsWritten(load)) return;
    const MemoryView &view = lowering.view(load.getView());
    if (view.sizes.size() != 2 || view.isShared) return;
    first = lowering.scalar(load.getOffsets()[0]);
    const Strip strip{view, lowering.scalar(load.getOffsets()[1]), false, view.sizes[0], &columns, true};
    copied.emplace(lowering, strip, Side::right, lines.depth);
  }

  int64_t bytes() const { return lines.bytes(); }

  void store(Num shared) {
    if (copied) {
      copied->copy(shared, *first);
      commitCopies(e);
      return;
    }
    storeTile(lowering, tile, /*asFp32=*/false,
              [&](Num k, Num column) { return shared + lines.offset(column, k) + column % kChunk * kBytes; });
  }

  SmallVector<SmallVector<Value>> fragments(Num shared, int64_t k) {
    return loadFragments(lowering, columns, lines, Side::right, shared, k);
  }

private:
  FunctionLowering &lowering;
  Emitter &e;
  Value tile;
  const AxisMap &columns;
  SharedTile lines;
  std::optional<Num> first; ///< row of memory (i64)
  std::optional<LineOperand> copied;
};

SmallVector<Value> multiplyByMma(FunctionLowering &lowering, tile::DotOp op, TileLayout layout) {
  Emitter &e = lowering.emitter();
  LeftTile left(lowering, op, *layout.rows);
  RightTile right(lowering, op, *layout.columns);
  lowering.evaluateAll(op.getA()); // ahead of the barrier, which waits for the slowest thread
  Num ofLeft = lowering.sharedMemory(left.bytes() + right.bytes()), ofRight = ofLeft + left.bytes();
  right.store(ofRight);
  left.store(ofLeft);
  waitForCopies(e, 0);
  lowering.barrier();
  const Type element = tile::elementOf(op.getA().getType());
  const MmaInstruction instruction{kFragmentDepth, element.isBF16() ? "bf16" : "f16"};
  SmallVector<Value> sums(layout.registers(), e.f32(0));
  for (int64_t k = 0; k < tile::columnsOf(op.getA().getType()); k += kFragmentDepth) {
    auto a = left.fragments(ofLeft, k), b = right.fragments(ofRight, k);
    for (int64_t m = 0; m < layout.rows->registers() / 2; ++m)
      for (int64_t n = 0; n < layout.columns->registers() / 2; ++n)
        addFragments(e, instruction, {sums, layout.columns->registers(), m, n}, a[m], b[n]);
  }
  return sums;
}

/// Both operands go to panels as a whole.
SmallVector<Value> multiplyByFma(FunctionLowering &lowering, tile::DotOp op, TileLayout layout) {
  Emitter &e = lowering.emitter();
  const int64_t depth = tile::tileType(op.getA()).getDimSize(1);
  const int64_t leftStride = panelStride(*layout.rows), rightStride = panelStride(*layout.columns);
  lowering.evaluateAll(op.getA()), lowering.evaluateAll(op.getB());
  Num left = lowering.sharedMemory(4 * depth * (leftStride + rightStride));
  Num right = left + 4 * depth * leftStride;
  storeTile(lowering, op.getA(), /*asFp32=*/true,
            [&](Num row, Num k) { return left + (k * leftStride + row) * 4; });
  storeTile(lowering, op.getB(), /*asFp32=*/true,
            [&](Num k, Num column) { return right + (k * rightStride + column) * 4; });
  lowering.barrier();
  SmallVector<Value> zeros(layout.registers(), e.f32(0));
  return multiplyPanels(lowering, layout, left, right, depth, zeros);
}

} // namespace

SmallVector<Value> emitDot(FunctionLowering &lowering, tile::DotOp op) {
  const TileLayout layout = lowering.layouts().ofProduct(op);
  SmallVector<Value> values = multiplyFor(op) == Multiply::mma16 ? multiplyByMma(lowering, op, layout)
                                                                 : multiplyByFma(lowering, op, layout);
  return redistribute(lowering, values, layout, lowering.layouts().of(op.getResult()), false);
}

} // namespace tilewright::nvptx
