// Products of two tiles: by mma.sync where both hold numbers of one 16-bit type, else by fp32 multiply-adds.

#include "compiler/nvptx/ptx/async_copy.h"
#include "compiler/nvptx/threads/exchange.h"
#include "compiler/nvptx/threads/fragment_product.h"
#include "compiler/nvptx/threads/memory_access.h"
#include "compiler/nvptx/threads/tile_operands.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tilewright::nvptx {

using namespace mlir;
using layout::AxisMap;
using layout::SharedTile;
using layout::Side;

void storeTile(Lowering &lowering, Value tile, bool asFp32, llvm::function_ref<Num(Num, Num)> place) {
  Emitter &e = lowering.emitter();
  const TileLayout from = lowering.layouts().of(tile);
  const int64_t replicas = (lowering.layouts().threads() - 1) & ~from.threadMask();
  Value writes = replicas ? (e.thread() & replicas) == 0 : e.truth(true);
  for (int64_t r = 0; r < from.rows->registers(); ++r)
    for (int64_t c = 0; c < from.columns->registers(); ++c) {
      Num row = lowering.position(*from.rows, r), column = lowering.position(*from.columns, c);
      Value live = e.both(e.both(writes, row < from.rows->extent), column < from.columns->extent);
      Value value = lowering.elements().evaluate(tile, r, c);
      if (asFp32)
        value = value.getType().isF32() ? value : e.widen(value);
      else if (c % 2 == 0 && isPaired(from, c))
        value = packPair(e, value, lowering.elements().evaluate(tile, r, ++c));
      else
        value = e.bitcast(e.b.getIntegerType(16), value);
      e.storeSharedIf(live, place(row, column), value);
    }
}

namespace {

constexpr int64_t kBytes = 2, kChunk = 8, kFragmentDepth = 16;

/// The left operand M×K: in the registers that the product's accumulators have in its rows and K columns,
/// which are what mma.sync takes, or by way of shared memory.
class LeftTile {
public:
  LeftTile(Lowering &lowering, tile::DotOp op, const AxisMap &rows)
      : lowering(lowering), e(lowering.emitter()), tile(op.getA()), rows(rows), shape(op, rows) {
    const TileLayout layout = lowering.layouts().of(tile);
    isInRegisters = *layout.rows == rows &&
                    *layout.columns == layout::accumulatorColumns(tile::columnsOf(tile.getType()), {});
  }

  int64_t bytes() const { return isInRegisters ? 0 : shape.bytes(); }

  void store(Num shared) {
    if (isInRegisters) return;
    const SharedTile &lines = shape.lines;
    storeTile(lowering, tile, /*asFp32=*/false, [&](Num row, Num k) {
      Num inside = k % lines.depth;
      return shared + k / lines.depth * lines.bytes() + lines.offset(row, inside) + inside % kChunk * kBytes;
    });
  }

  /// `isStored`: it is in shared memory whatever its registers hold.
  SmallVector<SmallVector<Value>> fragments(Num shared, int64_t k, bool isStored) {
    if (isInRegisters && !isStored) return fragmentsOfRegisters(k);
    const SharedTile &lines = shape.lines;
    return loadFragmentsByOne(lowering, rows, lines, Side::left, shared + k / lines.depth * lines.bytes(),
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
        Value low = lowering.elements().evaluate(tile, row, column),
              high = lowering.elements().evaluate(tile, row, column + 1);
        words.push_back(packPair(e, low, high));
      }
      result.push_back(words);
    }
    return result;
  }

  Lowering &lowering;
  Emitter &e;
  Value tile;
  const AxisMap &rows;
  LeftLines shape;
  bool isInRegisters;
};

SmallVector<Value> multiplyByMma(Lowering &lowering, tile::DotOp op, TileLayout layout,
                                 const CopiesAhead &ahead) {
  Emitter &e = lowering.emitter();
  LeftTile left(lowering, op, *layout.rows);
  RightTile right(lowering, op, *layout.columns);
  const Num memory = ahead.memory();
  ahead.start(op, memory);
  const std::optional<Num> leftPlace = ahead.placeOfLeft(op, memory), rightPlace = ahead.placeOf(op, memory);
  if (!leftPlace)
    lowering.elements().evaluateAll(op.getA()); // ahead of the barrier, which waits for the slowest thread
  const int64_t ofLeft = leftPlace ? 0 : left.bytes(), ofRight = rightPlace ? 0 : right.bytes();
  const Num exchanged = ofLeft + ofRight ? lowering.chip().exchange(ofLeft + ofRight) : memory;
  const Num leftMemory = leftPlace.value_or(exchanged), rightMemory = rightPlace.value_or(exchanged + ofLeft);
  if (!rightPlace) right.store(rightMemory);
  if (!leftPlace) left.store(leftMemory);
  waitForCopies(e, rightPlace ? ahead.startedAfter(op) : 0);
  lowering.order().barrier();
  const Type element = tile::elementOf(op.getA().getType());
  const MmaInstruction instruction{kFragmentDepth, element.isBF16() ? "bf16" : "f16"};
  SmallVector<Value> sums(layout.registers(), e.f32(0));
  for (int64_t k = 0; k < tile::columnsOf(op.getA().getType()); k += kFragmentDepth) {
    auto a = left.fragments(leftMemory, k, leftPlace.has_value()), b = right.fragments(rightMemory, k);
    for (int64_t m = 0; m < layout.rows->registers() / 2; ++m)
      for (int64_t n = 0; n < layout.columns->registers() / 2; ++n)
        addFragments(e, instruction, {sums, layout.columns->registers(), m, n}, a[m], b[n]);
  }
  return sums;
}

/// Both operands go to panels as a whole.
SmallVector<Value> multiplyByFma(Lowering &lowering, tile::DotOp op, TileLayout layout) {
  Emitter &e = lowering.emitter();
  const int64_t depth = tile::tileType(op.getA()).getDimSize(1);
  const int64_t leftStride = panelStride(*layout.rows), rightStride = panelStride(*layout.columns);
  lowering.elements().evaluateAll(op.getA()), lowering.elements().evaluateAll(op.getB());
  Num left = lowering.chip().exchange(4 * depth * (leftStride + rightStride));
  Num right = left + 4 * depth * leftStride;
  storeTile(lowering, op.getA(), /*asFp32=*/true,
            [&](Num row, Num k) { return left + (k * leftStride + row) * 4; });
  storeTile(lowering, op.getB(), /*asFp32=*/true,
            [&](Num k, Num column) { return right + (k * rightStride + column) * 4; });
  lowering.order().barrier();
  SmallVector<Value> zeros(layout.registers(), e.f32(0));
  return multiplyPanels(lowering, layout, left, right, depth, zeros);
}

} // namespace

SmallVector<Value> emitDot(Lowering &lowering, tile::DotOp op, const CopiesAhead &ahead) {
  const TileLayout layout = lowering.layouts().ofProduct(op);
  return multiplyFor(op) == Multiply::mma16 ? multiplyByMma(lowering, op, layout, ahead)
                                            : multiplyByFma(lowering, op, layout);
}

} // namespace tilewright::nvptx
