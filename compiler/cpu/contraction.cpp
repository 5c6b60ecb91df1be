#include "compiler/cpu/contraction.h"

#include "compiler/cpu/amx_tiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

namespace tilewright::cpu {

using namespace mlir;

namespace {

// Rows of a packed left block start a cache line apart from a power of two, so that the rows of one micro
// tile fall into different L1 sets.
constexpr int64_t kRowPadding = 16;

/// A packed element, 32 bits in either case: an fp32 number, or a pair of bf16 numbers adjacent along the
/// contracted axis where the processor multiplies such pairs.
class ProductEmitter {
public:
  ProductEmitter(Emitter &e, const ProductOperand &left, const ProductOperand &right,
                 const ProductScratch &scratch, const Accumulators &accumulators)
      : e(e), b(e.b), left(left), right(right), packedLeft(scratch.left), packedRight(scratch.right),
        acc(accumulators), method(productMethod(e.machine, left.view.element, right.view.element)),
        tiles(e, scratch.tiles), lanes(e.machine.lanes), microRows(method.microRows),
        microColumns(method.microColumns) {
    perUnit = method.inPairs ? 2 : 1;
    units = e.machine.contractionStep / perUnit;
    unitType = method.inPairs ? Type(b.getI32Type()) : Type(b.getF32Type());
    packedRows = llvm::alignTo(acc.rows, lanes);
    leftIsRowMajor = method.inTiles || left.contractedAxis == 1;
  }

  void emit() {
    liveRows = liveExtent(left, acc.rows);
    liveColumns = liveExtent(right, acc.columns);
    clearAccumulators();
    if (method.inTiles) tiles.configure();
    Value depth = left.view.sizes[left.contractedAxis];
    Value step = e.index(e.machine.contractionStep);
    loop(e.index(0), depth, step, [&](Value k) {
      Value liveDepth = e.minimum(e.sub(depth, k), step);
      packRight(k, liveDepth);
      packLeft(k, liveDepth);
      multiply(e.ceilDiv(liveDepth, perUnit), e.add(k, step));
    });
    if (method.inTiles) tiles.release();
  }

private:
  using Place = llvm::function_ref<Value(Value unit, Value position)>;

  void loop(Value from, Value to, Value step, llvm::function_ref<void(Value)> body) {
    auto forOp = b.create<scf::ForOp>(from, to, step);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(forOp.getBody());
    body(forOp.getInductionVar());
  }

  Value liveExtent(const ProductOperand &operand, int64_t extent) {
    return e.clamp(e.sub(operand.view.sizes[1 - operand.contractedAxis], operand.offset), 0, extent);
  }

  /// Positions below this one lie ahead of the view; null where there are none.
  Value firstLive(const ProductOperand &operand) {
    return operand.mayBeNegative ? e.sub(e.index(0), operand.offset) : Value();
  }

  /// Whether a position lies inside, with `live` positions up to the view's end (i1).
  Value isLive(const ProductOperand &operand, Value position, Value live) {
    Value inside = e.less(position, live), first = firstLive(operand);
    return first ? e.both(inside, b.create<arith::CmpIOp>(arith::CmpIPredicate::sge, position, first))
                 : inside;
  }

  /// The same of `lanes` positions from one on.
  Value liveLanes(const ProductOperand &operand, Value position, Value live) {
    Value first = firstLive(operand);
    return e.laneMask(e.sub(live, position), lanes, first ? e.sub(first, position) : Value());
  }

  void clearAccumulators() {
    auto type = e.vectorOf(b.getF32Type(), lanes);
    Value zeros = b.create<arith::ConstantOp>(type, b.getZeroAttr(type));
    loop(e.index(0), e.index(acc.rows * acc.columns), e.index(lanes),
         [&](Value i) { e.store(e.address(acc.pointer, i, b.getF32Type()), zeros); });
  }

  Value elementAddress(const MemoryView &view, Value row, Value column) {
    return e.address(view.pointer, e.add(e.mul(row, view.rowStride), column), view.element);
  }

  /// `lanes` packed elements that are adjacent along the contracted axis, `live` numbers of which exist.
  Value loadAlongDepth(const MemoryView &view, Value row, Value k, Value mask) {
    Value loaded = e.load(elementAddress(view, row, k), view.element, lanes * perUnit, mask);
    if (method.inPairs) return b.create<vector::BitCastOp>(e.vectorOf(unitType, lanes), loaded);
    return view.element.isF32() ? loaded : e.widen(loaded);
  }

  /// `lanes` packed elements that are adjacent along the free axis. Tiles are of whole steps: zeros from
  /// `lastK` on.
  Value loadAcrossDepth(const MemoryView &view, Value k, Value lastK, Value position, Value mask) {
    Value hasThis = method.inTiles ? e.both(mask, e.splat(e.less(k, lastK), lanes)) : mask;
    Value loaded = e.load(elementAddress(view, k, position), view.element, lanes, hasThis);
    if (!method.inPairs) return view.element.isF32() ? loaded : e.widen(loaded);
    Value nextK = e.add(k, e.index(1));
    Value hasNext = e.splat(e.less(nextK, lastK), lanes);
    Value next = e.load(elementAddress(view, nextK, position), view.element, lanes, e.both(mask, hasNext));
    auto bits = [&](Value half) {
      Value narrow = b.create<arith::BitcastOp>(e.vectorOf(b.getI16Type(), lanes), half);
      return b.create<arith::ExtUIOp>(e.vectorOf(unitType, lanes), narrow);
    };
    Value sixteen = e.splat(b.create<arith::ConstantIntOp>(16, 32), lanes);
    return b.create<arith::OrIOp>(bits(loaded), b.create<arith::ShLIOp>(bits(next), sixteen));
  }

  void storePacked(Value base, Value offset, Value vector) {
    if (e.machine.tf32 && !method.inPairs) vector = roundedToTf32(vector);
    e.store(e.address(base, offset, unitType), vector);
  }

  /// To nearest, ties away from zero, as cvt.rna does; a carry into the exponent is right, one out of a NaN
  /// is not.
  Value roundedToTf32(Value vector) {
    auto bitsType = e.vectorOf(b.getI32Type(), lanes);
    auto constant = [&](int32_t value) { return e.splat(b.create<arith::ConstantIntOp>(value, 32), lanes); };
    Value bits = b.create<vector::BitCastOp>(bitsType, vector);
    Value carried = b.create<arith::AddIOp>(bits, constant(1 << 12));
    Value cut = b.create<arith::AndIOp>(carried, constant(-(1 << 13)));
    Value isNumber = b.create<arith::CmpFOp>(arith::CmpFPredicate::ORD, vector, vector);
    return b.create<arith::SelectOp>(isNumber, b.create<vector::BitCastOp>(vector.getType(), cut), vector);
  }

  /// Panels of microColumns positions; in a panel, one packed element after the other along the contracted
  /// axis.
  Value panelOffset(Value unit, Value column) {
    Value panel = b.create<arith::DivUIOp>(column, e.index(microColumns));
    Value inside = b.create<arith::RemUIOp>(column, e.index(microColumns));
    return e.add(e.mul(e.add(e.mul(panel, e.index(units)), unit), e.index(microColumns)), inside);
  }

  Value roundUp(Value count, int64_t multiple) {
    return e.mul(e.ceilDiv(count, multiple), e.index(multiple));
  }

  void packRight(Value k, Value liveDepth) {
    Value padded = roundUp(liveColumns, microColumns);
    auto place = [&](Value unit, Value column) { return panelOffset(unit, column); };
    if (right.contractedAxis == 1)
      packTransposed(right, k, liveDepth, liveColumns, padded, packedRight, place);
    else
      packMinor(right, k, liveDepth, liveColumns, padded, packedRight, place);
  }

  void packLeft(Value k, Value liveDepth) {
    Value padded = roundUp(liveRows, microRows);
    if (left.contractedAxis == 1) return packLeftRows(k, liveDepth, padded);
    if (method.inTiles) return packLeftColumns(k, liveDepth, padded);
    packMinor(left, k, liveDepth, liveRows, padded, packedLeft,
              [&](Value unit, Value row) { return e.add(e.mul(unit, e.index(packedRows)), row); });
  }

  /// The free axis is contiguous in memory: whole vectors move unchanged. Positions from `live` to `padded`
  /// are zeros.
  void packMinor(const ProductOperand &operand, Value k, Value liveDepth, Value live, Value padded,
                 Value base, Place place) {
    Value lastK = e.add(k, liveDepth);
    Value liveUnits = e.ceilDiv(liveDepth, perUnit);
    Value packedUnits = method.inTiles ? roundUp(liveUnits, AmxTiles::kUnits) : liveUnits;
    loop(e.index(0), packedUnits, e.index(1), [&](Value unit) {
      Value row = e.add(k, e.mul(unit, e.index(perUnit)));
      loop(e.index(0), padded, e.index(lanes), [&](Value position) {
        Value mask = liveLanes(operand, position, live);
        Value vector = loadAcrossDepth(operand.view, row, lastK, e.add(operand.offset, position), mask);
        storePacked(base, place(unit, position), vector);
      });
    });
  }

  /// The contracted axis is contiguous in memory: lanes × lanes blocks are transposed in registers.
  void packTransposed(const ProductOperand &operand, Value k, Value liveDepth, Value live, Value padded,
                      Value base, Place place) {
    Value liveUnits = e.ceilDiv(liveDepth, perUnit);
    loop(e.index(0), padded, e.index(lanes), [&](Value position) {
      loop(e.index(0), liveUnits, e.index(lanes), [&](Value unit) {
        Value inside = e.mul(unit, e.index(perUnit));
        Value depthMask = e.laneMask(e.sub(liveDepth, inside), lanes * perUnit);
        SmallVector<Value> block;
        for (int64_t t = 0; t < lanes; ++t) {
          Value row = e.add(position, e.index(t));
          Value mask = e.both(depthMask, e.splat(isLive(operand, row, live), lanes * perUnit));
          block.push_back(loadAlongDepth(operand.view, e.add(operand.offset, row), e.add(k, inside), mask));
        }
        transposeBlock(block);
        for (int64_t t = 0; t < lanes; ++t)
          storePacked(base, place(e.add(unit, e.index(t)), position), block[t]);
      });
    });
  }

  /// log2(lanes) rounds of interleaving row i with row i + lanes/2: each moves one bit of the row number into
  /// the lane number and one the other way, so that at the end they have changed places.
  void transposeBlock(SmallVector<Value> &block) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < lanes; ++i) {
      int64_t source = (i % 2) * lanes + i / 2;
      low.push_back(source);
      high.push_back(source + lanes / 2);
    }
    for (int64_t round = 1; round < lanes; round *= 2) {
      SmallVector<Value> next;
      for (int64_t i = 0; i < lanes / 2; ++i) {
        next.push_back(b.create<vector::ShuffleOp>(block[i], block[i + lanes / 2], low));
        next.push_back(b.create<vector::ShuffleOp>(block[i], block[i + lanes / 2], high));
      }
      block = next;
    }
  }

  int64_t leftStride() const { return units + kRowPadding; }

  /// The left operand is only ever read one number at a time, so its rows are copied as they are.
  void packLeftRows(Value k, Value liveDepth, Value padded) {
    Value liveUnits = e.ceilDiv(liveDepth, perUnit);
    loop(e.index(0), padded, e.index(1), [&](Value row) {
      Value present = b.create<arith::SelectOp>(isLive(left, row, liveRows), liveDepth, e.index(0));
      loop(e.index(0), liveUnits, e.index(lanes), [&](Value unit) {
        Value inside = e.mul(unit, e.index(perUnit));
        Value mask = e.laneMask(e.sub(present, inside), lanes * perUnit);
        Value vector = loadAlongDepth(left.view, e.add(left.offset, row), e.add(k, inside), mask);
        storePacked(packedLeft, e.add(e.mul(row, e.index(leftStride())), unit), vector);
      });
    });
  }

  /// The same layout of rows that are contiguous along their free axis: lanes × lanes blocks are transposed.
  void packLeftColumns(Value k, Value liveDepth, Value padded) {
    Value lastK = e.add(k, liveDepth), liveUnits = e.ceilDiv(liveDepth, perUnit);
    loop(e.index(0), liveUnits, e.index(lanes), [&](Value unit) { // a line of memory is read at once
      loop(e.index(0), padded, e.index(lanes), [&](Value row) {
        Value mask = liveLanes(left, row, liveRows);
        SmallVector<Value> block;
        for (int64_t t = 0; t < lanes; ++t) {
          Value from = e.add(k, e.mul(e.add(unit, e.index(t)), e.index(perUnit)));
          block.push_back(loadAcrossDepth(left.view, from, lastK, e.add(left.offset, row), mask));
        }
        transposeBlock(block);
        for (int64_t t = 0; t < lanes; ++t) {
          Value at = e.add(e.mul(e.add(row, e.index(t)), e.index(leftStride())), unit);
          storePacked(packedLeft, at, block[t]);
        }
      });
    });
  }

  /// Meanwhile, what the step from `nextK` on packs is brought closer: a part beside each micro tile.
  void multiply(Value liveUnits, Value nextK) {
    Value across = e.ceilDiv(liveRows, microRows),
          count = e.mul(across, e.ceilDiv(liveColumns, microColumns));
    Prefetch ofLeft = prefetchOf(left, liveRows, nextK, count);
    Prefetch ofRight = prefetchOf(right, liveColumns, nextK, count);
    loop(e.index(0), liveColumns, e.index(microColumns), [&](Value column) {
      loop(e.index(0), liveRows, e.index(microRows), [&](Value row) {
        Value number = e.add(e.mul(e.ceilDiv(column, microColumns), across), e.ceilDiv(row, microRows));
        prefetch(ofLeft, number);
        prefetch(ofRight, number);
        method.inTiles ? tilesOf(row, column, liveUnits) : microTile(row, column, liveUnits);
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
    result.begin = alongDepth ? elementAddress(view, operand.offset, nextK)
                              : elementAddress(view, nextK, operand.offset);
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
    loop(first, end, e.index(1), [&](Value run) {
      Value begin = e.address(what.begin, e.mul(run, what.stride), b.getI8Type());
      loop(e.index(0), what.bytes, e.index(kLine), [&](Value byte) {
        constexpr int kRead = 0, kIntoSecondLevel = 2, kData = 1;
        b.create<LLVM::Prefetch>(e.address(begin, byte, b.getI8Type()), kRead, kIntoSecondLevel, kData);
      });
    });
  }

  Value sumsAt(Value row, Value column) {
    return e.address(acc.pointer, e.add(e.mul(row, e.index(acc.columns)), column), b.getF32Type());
  }
  Value leftAt(Value row) {
    return e.address(packedLeft, leftIsRowMajor ? e.mul(row, e.index(leftStride())) : row, unitType);
  }
  Value rightAt(Value column) { return e.address(packedRight, e.mul(column, e.index(units)), unitType); }

  /// The last rows may need one row of tiles only.
  void tilesOf(Value row, Value column, Value liveUnits) {
    Value needsBoth = e.less(e.add(row, e.index(AmxTiles::kRows)), liveRows);
    auto emit = [&](int64_t rowTiles) {
      tiles.multiply(rowTiles, leftAt(row), leftStride(), rightAt(column), liveUnits, sumsAt(row, column),
                     acc.columns);
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
  void microTile(Value row, Value column, Value liveUnits) {
    Type f32 = b.getF32Type();
    Value tile = sumsAt(row, column);
    auto place = [&](int64_t r, int64_t g) {
      return e.address(tile, e.index(r * acc.columns + g * lanes), f32);
    };
    Value leftTile = leftAt(row), rightPanel = rightAt(column);

    auto vector = e.vectorOf(f32, lanes);
    const SmallVector<Value> sums(2 * microRows, b.create<arith::ConstantOp>(vector, b.getZeroAttr(vector)));
    auto steps = b.create<scf::ForOp>(e.index(0), liveUnits, e.index(1), sums);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(steps.getBody());
      Value unit = steps.getInductionVar();
      Value rightRow = e.address(rightPanel, e.mul(unit, e.index(microColumns)), unitType);
      Value leftColumn =
          e.address(leftTile, leftIsRowMajor ? unit : e.mul(unit, e.index(packedRows)), unitType);
      Value wide[2];
      for (int64_t g = 0; g < 2; ++g)
        wide[g] = e.load(e.address(rightRow, e.index(g * lanes), unitType), unitType, lanes);
      SmallVector<Value> next;
      for (int64_t r = 0; r < microRows; ++r) {
        Value where = e.address(leftColumn, e.index(leftIsRowMajor ? r * leftStride() : r), unitType);
        Value scalar = b.create<LLVM::LoadOp>(unitType, where, 4);
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
  Value packedLeft, packedRight;
  Accumulators acc;
  ProductMethod method;
  AmxTiles tiles;
  int64_t lanes, microRows, microColumns, perUnit, units, packedRows;
  bool leftIsRowMajor;
  Type unitType;
  Value liveRows, liveColumns;
};

} // namespace

ProductMethod productMethod(const Machine &machine, Type left, Type right) {
  const bool ofBf16 = left.isBF16() && right.isBF16();
  if (ofBf16 && machine.tiles) return {true, true, AmxTiles::kMicroRows, AmxTiles::kMicroColumns};
  return {false, ofBf16 && machine.bf16Dot, machine.microRows(), machine.microColumns()};
}

int64_t packedLeftBytes(const Machine &machine, const ProductMethod &method, int64_t rows) {
  const int64_t units = machine.contractionStep / (method.inPairs ? 2 : 1);
  const int64_t padded = llvm::alignTo(rows, method.microRows);
  int64_t rowMajor = padded * (units + kRowPadding);
  int64_t depthMajor = llvm::alignTo(padded, machine.lanes) * units;
  return 4 * std::max(rowMajor, depthMajor);
}

int64_t packedRightBytes(const Machine &machine, const ProductMethod &method, int64_t columns) {
  const int64_t units = machine.contractionStep / (method.inPairs ? 2 : 1);
  return 4 * llvm::alignTo(columns, method.microColumns) * units;
}

void emitProduct(Emitter &emitter, const ProductOperand &left, const ProductOperand &right,
                 const ProductScratch &scratch, const Accumulators &accumulators) {
  ProductEmitter(emitter, left, right, scratch, accumulators).emit();
}

} // namespace tilewright::cpu
