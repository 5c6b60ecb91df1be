#include "compiler/cpu/contraction.h"

#include "compiler/cpu/amx_tiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tilewright::cpu {

using namespace mlir;

namespace {

class ProductEmitter {
public:
  ProductEmitter(Emitter &e, const ProductOperand &left, const ProductOperand &right,
                 const ProductScratch &scratch, const Accumulators &accumulators)
      : e(e), b(e.b), left(left), right(right), packing(e, left, right, scratch.left, scratch.right),
        acc(accumulators), method(productMethod(e.machine, left.view.element, right.view.element)),
        tiles(e, scratch.tiles), lanes(e.machine.lanes), microRows(method.microRows),
        microColumns(method.microColumns) {}

  void emit() {
    liveRows = liveExtent(left, acc.rows);
    liveColumns = liveExtent(right, acc.columns);
    clear(e.index(0), e.index(acc.rows));
    if (method.inTiles) tiles.configure();
    Value depth = left.view.sizes[left.contractedAxis];
    Value step = e.index(e.machine.contractionStep);
    e.loop(e.index(0), depth, step, [&](Value k) {
      Value liveDepth = e.minimum(e.sub(depth, k), step);
      packing.packRight(k, liveDepth, liveColumns);
      packing.packLeft(k, liveDepth, liveRows);
      multiply(k, packing.unitsOf(liveDepth), e.add(k, step));
    });
    if (method.inTiles) tiles.release();
    if (packing.repeatsLastRow()) clear(liveRows, e.roundUp(liveRows, microRows));
  }

private:
  Value liveExtent(const ProductOperand &operand, int64_t extent) {
    return e.clamp(e.sub(operand.view.sizes[1 - operand.contractedAxis], operand.offset), 0, extent);
  }

  /// Rows [first, end) of the accumulators.
  void clear(Value first, Value end) {
    Type f32 = b.getF32Type();
    Value zeros = e.zeros(f32, lanes), columns = e.index(acc.columns);
    e.loop(e.mul(first, columns), e.mul(end, columns), e.index(lanes),
           [&](Value i) { e.store(e.address(acc.pointer, i, f32), zeros); });
  }

  /// Meanwhile, what the step from `nextK` on packs is brought closer: a part beside each micro tile.
  void multiply(Value k, Value liveUnits, Value nextK) {
    Value across = e.ceilDiv(liveRows, microRows),
          count = e.mul(across, e.ceilDiv(liveColumns, microColumns));
    Prefetch ofLeft = prefetchOf(left, liveRows, nextK, count);
    Prefetch ofRight = prefetchOf(right, liveColumns, nextK, count);
    e.loop(e.index(0), liveColumns, e.index(microColumns), [&](Value column) {
      e.loop(e.index(0), liveRows, e.index(microRows), [&](Value row) {
        Value number = e.add(e.mul(e.ceilDiv(column, microColumns), across), e.ceilDiv(row, microRows));
        prefetch(ofLeft, number);
        prefetch(ofRight, number);
        method.inTiles ? tilesOf(row, column, liveUnits) : microTile(k, row, column, liveUnits);
      });
    });
  }

  /// What a step packs of an operand: runs of adjacent bytes, which lie the operand's row stride apart.
  struct Prefetch {
    Value begin, stride; ///< the first run; bytes from one run to the next
    Value runs, bytes;   ///< their number, and the length of each
    Value share;         ///< runs beside one micro tile
  };

  Prefetch prefetchOf(const ProductOperand &operand, Value live, Value nextK, Value microTiles) {
    const MemoryView &view = operand.view;
    const int64_t size = view.element.getIntOrFloatBitWidth() / 8;
    Value depth = e.clamp(e.sub(view.sizes[operand.contractedAxis], nextK), 0, e.machine.contractionStep);
    const bool alongDepth = operand.contractedAxis == 1;
    Prefetch result;
    result.begin =
        alongDepth ? e.address(view, operand.offset, nextK) : e.address(view, nextK, operand.offset);
    result.stride = e.mul(view.rowStride, e.index(size));
    Value some = b.create<arith::SelectOp>(e.less(e.index(0), depth), live, e.index(0));
    result.runs = alongDepth ? some : depth;
    result.bytes = e.mul(alongDepth ? depth : live, e.index(size));
    const Value tiles = b.createOrFold<arith::MaxSIOp>(microTiles, e.index(1));
    const Value rounded = e.sub(e.add(result.runs, tiles), e.index(1));
    result.share = b.createOrFold<arith::DivUIOp>(rounded, tiles);
    return result;
  }

  void prefetch(const Prefetch &what, Value microTile) {
    constexpr int64_t kLine = 64;
    Value first = e.mul(microTile, what.share);
    Value end = e.minimum(e.add(first, what.share), what.runs);
    e.loop(first, end, e.index(1), [&](Value run) {
      Value begin = e.address(what.begin, e.mul(run, what.stride), b.getI8Type());
      e.loop(e.index(0), what.bytes, e.index(kLine), [&](Value byte) {
        constexpr int kRead = 0, kIntoSecondLevel = 2, kData = 1;
        b.create<LLVM::Prefetch>(e.address(begin, byte, b.getI8Type()), kRead, kIntoSecondLevel, kData);
      });
    });
  }

  Value sumsAt(Value row, Value column) {
    return e.address(acc.pointer, e.add(e.mul(row, e.index(acc.columns)), column), b.getF32Type());
  }
  /// The last rows may need one row of tiles only.
  void tilesOf(Value row, Value column, Value liveUnits) {
    Value needsBoth = e.less(e.add(row, e.index(AmxTiles::kRows)), liveRows);
    auto emit = [&](int64_t rowTiles) {
      tiles.multiply(rowTiles, packing.leftRow(row), packing.leftStride(), packing.rightPanel(column),
                     liveUnits, sumsAt(row, column), acc.columns);
    };
    auto branch = b.create<scf::IfOp>(needsBoth, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    emit(2);
    b.setInsertionPointToStart(branch.elseBlock());
    emit(1);
  }

  /// microRows × microColumns sums over a step of the contracted axis stay in registers, and are then added
  /// to the accumulators: two short sums round less than a long one, by two orders over 32768 terms of a
  /// sign.
  void microTile(Value k, Value row, Value column, Value liveUnits) {
    Type f32 = b.getF32Type();
    Value tile = sumsAt(row, column);
    auto place = [&](int64_t r, int64_t g) {
      return e.address(tile, e.index(r * acc.columns + g * lanes), f32);
    };
    const Packing::Rows rows = packing.leftRows(k, row, liveRows);
    Value rightPanel = packing.rightPanel(column);
    const Type packed = packing.elementType();

    const SmallVector<Value> sums(2 * microRows, e.zeros(f32, lanes));
    auto steps = b.create<scf::ForOp>(e.index(0), liveUnits, e.index(1), sums);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(steps.getBody());
      Value unit = steps.getInductionVar();
      Value rightRow = e.address(rightPanel, e.mul(unit, e.index(microColumns)), packed);
      Value wide[2];
      for (int64_t g = 0; g < 2; ++g)
        wide[g] = e.load(e.address(rightRow, e.index(g * lanes), packed), packed, lanes);
      SmallVector<Value> next;
      for (int64_t r = 0; r < microRows; ++r) {
        Value where = e.address(rows.begins[r], e.mul(unit, e.index(rows.stride)), packed);
        Value scalar = b.create<LLVM::LoadOp>(packed, where, 4);
        Value broadcast = e.splat(scalar, lanes);
        for (int64_t g = 0; g < 2; ++g)
          next.push_back(multiplyAdd(broadcast, wide[g], steps.getRegionIterArg(2 * r + g)));
      }
      b.create<scf::YieldOp>(next);
    }
    for (int64_t r = 0; r < microRows; ++r)
      for (int64_t g = 0; g < 2; ++g) {
        Value total = e.load(place(r, g), f32, lanes);
        e.store(place(r, g), b.create<arith::AddFOp>(total, steps.getResult(2 * r + g)));
      }
  }

  Value multiplyAdd(Value x, Value y, Value sum) {
    if (!method.inPairs) return b.create<vector::FMAOp>(x, y, sum);
    auto pairs = e.vectorOf(b.getBF16Type(), 2 * lanes);
    Value arguments[] = {sum, b.create<vector::BitCastOp>(pairs, x), b.create<vector::BitCastOp>(pairs, y)};
    return b
        .create<LLVM::CallIntrinsicOp>(sum.getType(), b.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512"),
                                       arguments)
        .getResult(0);
  }

  Emitter &e;
  ImplicitLocOpBuilder &b;
  const ProductOperand &left, &right;
  Packing packing;
  Accumulators acc;
  ProductMethod method;
  AmxTiles tiles;
  int64_t lanes, microRows, microColumns;
  Value liveRows, liveColumns;
};

} // namespace

void emitProduct(Emitter &emitter, const ProductOperand &left, const ProductOperand &right,
                 const ProductScratch &scratch, const Accumulators &accumulators) {
  ProductEmitter(emitter, left, right, scratch, accumulators).emit();
}

} // namespace tilewright::cpu
