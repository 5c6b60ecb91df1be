// Products of two tiles: by wgmma or mma.sync where both hold numbers of one 16-bit type, else by fp32
// multiply-adds.

#include "compiler/nvptx/ptx/async_copy.h"
#include "compiler/nvptx/ptx/mbarrier.h"
#include "compiler/nvptx/threads/exchange.h"
#include "compiler/nvptx/threads/fragment_product.h"
#include "compiler/nvptx/threads/memory_access.h"
#include "compiler/nvptx/threads/tile_operands.h"
#include "compiler/nvptx/tile_gpu/multiply.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace tilewright::nvptx {

using namespace mlir;
using layout::AxisMap;
using layout::SharedTile;
using layout::Side;

void storeTile(Lowering &lowering, Value tile, bool asFp32, llvm::function_ref<Num(Num, Num)> place) {
  Emitter &e = lowering.emitter();
  const TileLayout from = lowering.layouts().of(tile);
  forEachTold(lowering, from, [&](int64_t r, int64_t c, Num row, Num column, Value tells) {
    const bool isPair = !asFp32 && isPaired(from, c);
    if (isPair && c % 2) return; // stored with the one before
    Value value = lowering.elements().evaluate(tile, r, c);
    if (asFp32)
      value = value.getType().isF32() ? value : e.widen(value);
    else if (isPair)
      value = packPair(e, value, lowering.elements().evaluate(tile, r, c + 1));
    else
      value = e.bitcast(e.b.getIntegerType(16), value);
    e.storeSharedIf(tells, place(row, column), value);
  });
}

namespace {

constexpr int64_t kBytes = 2, kChunk = 8, kFragmentDepth = 16, kWgmmaDepth = 64;

/// The left operand M×K: in the registers that the product's accumulators have in its rows and K columns,
/// which are what mma.sync and wgmma take, or by way of shared memory.
class LeftTile {
public:
  /// `isCopied`: cp.async brings it to shared memory, and no thread holds it.
  LeftTile(Lowering &lowering, tile::DotOp op, const AxisMap &rows, bool isCopied)
      : lowering(lowering), e(lowering.emitter()), tile(op.getA()), rows(rows), shape(op, rows),
        isCopied(isCopied) {
    const TileLayout layout = lowering.layouts().of(tile);
    isInRegisters = !isCopied && *layout.rows == rows &&
                    *layout.columns == layout::accumulatorColumns(tile::columnsOf(tile.getType()), {});
  }

  int64_t bytes() const { return isInRegisters || isCopied ? 0 : shape.bytes(); } ///< for `store`

  void store(Num shared) {
    if (isInRegisters || isCopied) return;
    const SharedTile &lines = shape.lines;
    storeTile(lowering, tile, /*asFp32=*/false, [&](Num row, Num k) {
      Num inside = k % lines.depth;
      return shared + k / lines.depth * lines.bytes() + lines.offset(row, inside) + inside % kChunk * kBytes;
    });
  }

  SmallVector<SmallVector<Value>> fragments(Num shared, int64_t k) {
    if (isInRegisters) return fragmentsOfRegisters(k);
    const SharedTile &lines = shape.lines;
    return loadFragmentsByOne(lowering, rows, lines, Side::left, shared + k / lines.depth * lines.bytes(),
                              k % lines.depth);
  }

  /// Depths [k, k + 64) of this warpgroup's rows for wgmma.
  WgmmaLeft forWgmma(Num shared, int64_t k) {
    if (!isInRegisters) {
      constexpr int64_t kThreads = 128; // of a warpgroup
      const SharedTile &lines = shape.lines;
      Num first = e.thread() / kThreads * rows.position(kThreads, 0);
      return {WgmmaOperand{shared + k / lines.depth * lines.bytes() + first * kLineBytes, true},
              rows.registers() > 2 ? rows.offsets[2] : 0,
              {}};
    }
    WgmmaLeft left;
    left.fragments.resize(rows.registers() / 2);
    for (int64_t at = k; at < k + kWgmmaDepth; at += kFragmentDepth)
      for (auto [list, words] : llvm::zip(left.fragments, fragmentsOfRegisters(at)))
        list.push_back(words);
    return left;
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
  bool isCopied, isInRegisters;
};

/// What a product adds to: a tile, or nothing.
SmallVector<Value> firstSums(Lowering &lowering, TileLayout layout, Value added) {
  return added ? lowering.elements().evaluateAll(added)
               : SmallVector<Value>(layout.registers(), lowering.emitter().f32(0));
}

/// A product's operands where tensor cores take them from, which all threads may read behind the constructor.
struct TileOperands {
  TileOperands(Lowering &lowering, tile::DotOp op, TileLayout layout, const CopiesAhead &ahead, bool toWgmma)
      : left(lowering, op, *layout.rows, ahead.isLeft(op.getA().getDefiningOp())),
        right(lowering, op, *layout.columns) {
    ahead.start(op);
    const std::optional<Num> leftPlace = ahead.placeOfLeft(op), rightPlace = ahead.placeOf(op);
    if (!leftPlace)
      lowering.elements().evaluateAll(op.getA()); // ahead of the barrier, which waits for the slowest thread
    const int64_t ofLeft = left.bytes(), ofRight = rightPlace ? 0 : right.bytes();
    const Num exchanged = ofLeft + ofRight ? lowering.chip().exchange(ofLeft + ofRight) : ahead.memory();
    leftMemory = leftPlace.value_or(exchanged), rightMemory = rightPlace.value_or(exchanged + ofLeft);
    if (!rightPlace) right.store(rightMemory);
    left.store(leftMemory);
    waitForCopies(lowering.emitter(), rightPlace ? ahead.startedAfter(op) : 0);
    if (toWgmma) fenceAsyncProxy(lowering.emitter());
    lowering.order().barrier();
  }

  LeftTile left;
  RightTile right;
  Num leftMemory{nullptr, {}}, rightMemory{nullptr, {}}; ///< addresses, of what is in shared memory
};

SmallVector<Value> multiplyByMma(Lowering &lowering, tile::DotOp op, TileLayout layout,
                                 const CopiesAhead &ahead, Value added) {
  TileOperands operands(lowering, op, layout, ahead, /*toWgmma=*/false);
  const Type element = tile::elementOf(op.getA().getType());
  const MmaInstruction instruction{kFragmentDepth, element.isBF16() ? "bf16" : "f16"};
  SmallVector<Value> sums = firstSums(lowering, layout, added);
  for (int64_t k = 0; k < tile::columnsOf(op.getA().getType()); k += kFragmentDepth) {
    auto a = operands.left.fragments(operands.leftMemory, k);
    auto b = operands.right.fragments(operands.rightMemory, k);
    for (int64_t m = 0; m < layout.rows->registers() / 2; ++m)
      for (int64_t n = 0; n < layout.columns->registers() / 2; ++n)
        addFragments(lowering.emitter(), instruction, {sums, layout.columns->registers(), m, n}, a[m], b[n]);
  }
  return sums;
}

/// The instructions are asynchronous; the threads wait for them here.
SmallVector<Value> multiplyByWgmma(Lowering &lowering, tile::DotOp op, TileLayout layout,
                                   const CopiesAhead &ahead, Value added) {
  Emitter &e = lowering.emitter();
  TileOperands operands(lowering, op, layout, ahead, /*toWgmma=*/true);
  const Value none = e.b.create<LLVM::UndefOp>(e.b.getF32Type()); // the first instruction replaces it
  Accumulators sums =
      fromRows(added ? lowering.elements().evaluateAll(added) : SmallVector<Value>(layout.registers(), none),
               layout.columns->registers());
  std::optional<Num> adds = added ? std::nullopt : std::optional(e.i32(0));
  fenceProducts(e);
  for (int64_t k = 0; k < tile::columnsOf(op.getA().getType()); k += kWgmmaDepth)
    addProducts(e, operands.left.forWgmma(operands.leftMemory, k),
                operands.right.forWgmma(operands.rightMemory, k), tile::elementOf(op.getA().getType()), sums,
                std::exchange(adds, std::nullopt));
  commitProducts(e);
  waitForProducts(e, sums);
  return byRows(sums);
}

/// Both operands go to panels as a whole.
SmallVector<Value> multiplyByFma(Lowering &lowering, tile::DotOp op, TileLayout layout, Value added) {
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
  return multiplyPanels(lowering, layout, left, right, depth, firstSums(lowering, layout, added));
}

} // namespace

/// Whether a tile that is used in the block of `op` can be made where that stands: by element-wise ops, of
/// what is known there.
static bool canBeMadeAt(Value tile, Operation *op) {
  llvm::SmallPtrSet<Operation *, 16> seen;
  SmallVector<Value> open{tile};
  while (!open.empty()) {
    Operation *maker = open.pop_back_val().getDefiningOp();
    if (!maker || isMadeAhead(maker, op)) continue;
    if (!isElementwise(maker)) return false;
    if (seen.insert(maker).second) open.append(maker->operand_begin(), maker->operand_end());
  }
  return true;
}

/// The addition that alone takes a product's result, and the tile to which it adds, if that can be the first
/// of the product's sums: they are then one set of registers.
static std::pair<arith::AddFOp, Value> additionOf(tile::DotOp op, const Layouts &layouts) {
  auto sum = op.getResult().hasOneUse() ? dyn_cast<arith::AddFOp>(*op->user_begin()) : arith::AddFOp();
  if (!sum || sum->getBlock() != op->getBlock()) return {};
  const Value other = sum.getLhs() == op.getResult() ? sum.getRhs() : sum.getLhs();
  const bool canStart = layouts.of(other) == layouts.ofProduct(op) && canBeMadeAt(other, op);
  return canStart ? std::pair{sum, other} : std::pair{arith::AddFOp(), Value()};
}

void emitDot(Lowering &lowering, tile::DotOp op, const CopiesAhead &ahead) {
  const TileLayout layout = lowering.layouts().ofProduct(op);
  auto [sum, added] = additionOf(op, lowering.layouts());
  SmallVector<Value> sums;
  if (multiplyFor(op) == Multiply::fma)
    sums = multiplyByFma(lowering, op, layout, added);
  else if (isByWgmma(op, lowering.layouts(), lowering.options()))
    sums = multiplyByWgmma(lowering, op, layout, ahead, added);
  else
    sums = multiplyByMma(lowering, op, layout, ahead, added);
  lowering.elements().set(sum ? sum.getResult() : op.getResult(), std::move(sums));
}

} // namespace tilewright::nvptx
