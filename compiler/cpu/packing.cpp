#include "compiler/cpu/packing.h"

#include "compiler/cpu/amx_tiles.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

namespace tilewright::cpu {

using namespace mlir;

// Rows of a packed left block start a cache line apart from a power of two, so that the rows of one micro
// tile fall into different L1 sets.
static constexpr int64_t kRowPadding = 16;

/// Elements of a left panel's unit: whole vectors, or half ones.
static int64_t leftSlots(const ProductMethod &method) { return llvm::alignTo(method.microRows, 8); }

/// Panels that are packed side by side, so that a row of the operand is read in whole lines of memory, and
/// more than one.
static int64_t panelsAtOnce(int64_t positions) {
  constexpr int64_t kLine = 16, kLeast = 32; // fp32 numbers
  int64_t panels = 1;
  while (panels * positions < kLeast || panels * positions % kLine != 0)
    ++panels;
  return panels;
}

/// Numbers in a packed element.
static int64_t numbersOf(const ProductMethod &method) { return method.inPairs ? 2 : 1; }

ProductMethod productMethod(const Machine &machine, Type left, Type right) {
  const bool ofBf16 = left.isBF16() && right.isBF16();
  if (ofBf16 && machine.tiles) return {true, true, AmxTiles::kMicroRows, AmxTiles::kMicroColumns};
  return {false, ofBf16 && machine.bf16Dot, machine.microRows(), machine.microColumns()};
}

bool readsInPlace(const Machine &machine, const ProductOperand &left, const ProductOperand &right) {
  const bool isF32 = left.view.element.isF32() && right.view.element.isF32();
  return isF32 && !machine.tf32 && left.contractedAxis == 1 && !left.mayBeNegative;
}

int64_t packedLeftBytes(const Machine &machine, const ProductMethod &method, int64_t rows) {
  const int64_t units = machine.contractionStep / numbersOf(method);
  const int64_t padded = llvm::alignTo(rows, method.microRows);
  const int64_t rowMajor = padded * (units + kRowPadding);
  const int64_t panels = llvm::alignTo(padded / method.microRows, panelsAtOnce(method.microRows));
  return 4 * std::max(rowMajor, panels * units * leftSlots(method));
}

int64_t packedRightBytes(const Machine &machine, const ProductMethod &method, int64_t columns) {
  const int64_t units = machine.contractionStep / numbersOf(method);
  return 4 * llvm::alignTo(columns, panelsAtOnce(method.microColumns) * method.microColumns) * units;
}

Packing::Packing(Emitter &emitter, const ProductOperand &left, const ProductOperand &right, Value leftScratch,
                 Value rightScratch)
    : e(emitter), b(e.b), left(left), right(right), leftScratch(leftScratch), rightScratch(rightScratch),
      method(productMethod(e.machine, left.view.element, right.view.element)), lanes(e.machine.lanes),
      perUnit(numbersOf(method)), units(e.machine.contractionStep / perUnit),
      packed(method.inPairs ? Type(b.getI32Type()) : Type(b.getF32Type())),
      leftInPlace(readsInPlace(e.machine, left, right)) {}

// ---- Where packed elements lie -----------------------------------------------------------------------

Packing::Panels Packing::leftPanels() const { return {leftScratch, method.microRows, leftSlots(method)}; }

/// Of the panel that begins at this position, the first element.
Value Packing::panelOffset(const Panels &panels, Value position) {
  Value number = b.createOrFold<arith::DivUIOp>(position, e.index(panels.positions));
  return e.mul(number, e.index(units * panels.slots));
}

int64_t Packing::leftStride() const { return units + kRowPadding; }

Value Packing::leftRow(Value row) {
  return e.address(leftScratch, e.mul(row, e.index(leftStride())), packed);
}

Value Packing::rightPanel(Value column) {
  return e.address(rightScratch, panelOffset(rightPanels(), column), packed);
}

Packing::Rows Packing::leftRows(Value k, Value row, Value live) {
  return leftInPlace ? rowsInPlace(k, row, live) : packedRows(row);
}

Packing::Rows Packing::packedRows(Value row) {
  const bool isRowMajor = left.contractedAxis == 1;
  Rows rows{{}, isRowMajor ? 1 : leftSlots(method)};
  Value first = isRowMajor ? leftRow(row) : e.address(leftScratch, panelOffset(leftPanels(), row), packed);
  for (int64_t r = 0; r < method.microRows; ++r)
    rows.begins.push_back(e.address(first, e.index(isRowMajor ? r * leftStride() : r), packed));
  return rows;
}

Packing::Rows Packing::rowsInPlace(Value k, Value row, Value live) {
  Rows rows{{}, 1};
  Value last = e.sub(live, e.index(1));
  for (int64_t r = 0; r < method.microRows; ++r) {
    Value existing = e.minimum(e.add(row, e.index(r)), last);
    rows.begins.push_back(e.address(left.view, e.add(left.offset, existing), k));
  }
  return rows;
}

// ---- Loads and stores --------------------------------------------------------------------------------

/// Positions below this one lie ahead of the view; null where there are none.
Value Packing::firstLive(const ProductOperand &operand) {
  return operand.mayBeNegative ? e.sub(e.index(0), operand.offset) : Value();
}

/// Whether a position lies inside, with `live` positions up to the view's end (i1).
Value Packing::isLive(const ProductOperand &operand, Value position, Value live) {
  Value inside = e.less(position, live), first = firstLive(operand);
  return first ? e.both(inside, b.create<arith::CmpIOp>(arith::CmpIPredicate::sge, position, first)) : inside;
}

/// The same of `count` positions from one on.
Value Packing::liveLanes(const ProductOperand &operand, Value position, Value live, int64_t count) {
  Value first = firstLive(operand);
  return e.laneMask(e.sub(live, position), count, first ? e.sub(first, position) : Value());
}

/// `lanes` packed elements that are adjacent along the contracted axis, of which the mask's numbers exist.
Value Packing::loadAlongDepth(const MemoryView &view, Value row, Value k, Value mask) {
  Value loaded = e.load(e.address(view, row, k), view.element, lanes * perUnit, mask);
  if (method.inPairs) return b.create<vector::BitCastOp>(e.vectorOf(packed, lanes), loaded);
  return view.element.isF32() ? loaded : e.widen(loaded);
}

/// `count` packed elements that are adjacent along the free axis. Numbers from `lastK` on are zeros; where it
/// is null, all of the unit's are there.
Value Packing::loadAcrossDepth(const MemoryView &view, Value k, Value lastK, Value position, Value mask,
                               int64_t count) {
  auto loadAt = [&](Value at) {
    Value exists = lastK ? e.both(mask, e.splat(e.less(at, lastK), count)) : mask;
    return e.load(e.address(view, at, position), view.element, count, exists);
  };
  Value loaded = loadAt(k);
  if (!method.inPairs) return view.element.isF32() ? loaded : e.widen(loaded);
  auto bits = [&](Value half) {
    Value narrow = b.create<arith::BitcastOp>(e.vectorOf(b.getI16Type(), count), half);
    return b.create<arith::ExtUIOp>(e.vectorOf(packed, count), narrow);
  };
  Value next = loadAt(e.add(k, e.index(1)));
  Value sixteen = e.splat(b.create<arith::ConstantIntOp>(16, 32), count);
  return b.create<arith::OrIOp>(bits(loaded), b.create<arith::ShLIOp>(bits(next), sixteen));
}

void Packing::store(Value base, Value offset, Value vector) {
  if (e.machine.tf32 && !method.inPairs) vector = roundedToTf32(vector);
  e.store(e.address(base, offset, packed), vector);
}

/// To nearest, ties away from zero, as cvt.rna does; a carry into the exponent is right, one out of a NaN is
/// not.
Value Packing::roundedToTf32(Value vector) {
  const int64_t count = cast<VectorType>(vector.getType()).getNumElements();
  auto constant = [&](int32_t value) { return e.splat(b.create<arith::ConstantIntOp>(value, 32), count); };
  Value bits = b.create<vector::BitCastOp>(e.vectorOf(b.getI32Type(), count), vector);
  Value carried = b.create<arith::AddIOp>(bits, constant(1 << 12));
  Value cut = b.create<arith::AndIOp>(carried, constant(-(1 << 13)));
  Value isNumber = b.create<arith::CmpFOp>(arith::CmpFPredicate::ORD, vector, vector);
  return b.create<arith::SelectOp>(isNumber, b.create<vector::BitCastOp>(vector.getType(), cut), vector);
}

/// log2(lanes) rounds of interleaving row i with row i + lanes/2: each moves one bit of the row number into
/// the lane number and one the other way, so that at the end they have changed places.
void Packing::transposeBlock(SmallVector<Value> &block) {
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

// ---- Packing -----------------------------------------------------------------------------------------

void Packing::packRight(Value k, Value liveDepth, Value live) {
  Value padded = e.roundUp(live, method.microColumns);
  if (right.contractedAxis == 1)
    packTransposed(k, liveDepth, live, padded);
  else
    packMinor(right, rightPanels(), k, liveDepth, live, padded);
}

void Packing::packLeft(Value k, Value liveDepth, Value live) {
  if (leftInPlace) return;
  Value padded = e.roundUp(live, method.microRows);
  if (left.contractedAxis == 1) return packLeftRows(k, liveDepth, live, padded);
  if (method.inTiles) return packLeftColumns(k, liveDepth, live, padded);
  packMinor(left, leftPanels(), k, liveDepth, live, padded);
}

/// The units of a step, `atOnce` of them in a turn: first those of which all numbers are there, then the
/// others, up to whole tiles, with the end of the contracted axis.
void Packing::forUnits(Value k, Value liveDepth, int64_t atOnce,
                       llvm::function_ref<void(Value unit, Value lastK)> body) {
  Value whole = b.createOrFold<arith::DivUIOp>(liveDepth, e.index(perUnit * atOnce));
  Value wholeUnits = e.mul(whole, e.index(atOnce)), liveUnits = unitsOf(liveDepth);
  e.loop(e.index(0), wholeUnits, e.index(atOnce), [&](Value unit) { body(unit, {}); });
  if (perUnit * atOnce == 1) return;
  Value end = method.inTiles ? e.roundUp(liveUnits, AmxTiles::kUnits) : liveUnits;
  Value lastK = e.add(k, liveDepth);
  e.loop(wholeUnits, end, e.index(atOnce), [&](Value unit) { body(unit, lastK); });
}

/// The free axis is contiguous in memory: whole vectors move unchanged.
void Packing::packMinor(const ProductOperand &operand, const Panels &panels, Value k, Value liveDepth,
                        Value live, Value padded) {
  struct Run {
    Value position, mask, offset;
  };
  const int64_t group = panelsAtOnce(panels.positions), count = std::min(lanes, panels.slots);
  e.loop(e.index(0), padded, e.index(group * panels.positions), [&](Value first) {
    SmallVector<Run> runs;
    for (int64_t panel = 0; panel < group; ++panel)
      for (int64_t slot = 0; slot < panels.slots; slot += count) {
        Value position = e.add(first, e.index(panel * panels.positions + slot));
        Value offset = e.add(panelOffset(panels, first), e.index(panel * units * panels.slots + slot));
        runs.push_back({e.add(operand.offset, position), liveLanes(operand, position, live, count), offset});
      }
    forUnits(k, liveDepth, 1, [&](Value unit, Value lastK) {
      Value row = e.add(k, e.mul(unit, e.index(perUnit)));
      for (const Run &run : runs)
        store(panels.base, e.add(run.offset, e.mul(unit, e.index(panels.slots))),
              loadAcrossDepth(operand.view, row, lastK, run.position, run.mask, count));
    });
  });
}

/// The right operand's contracted axis is contiguous in memory: lanes × lanes blocks are transposed in
/// registers.
void Packing::packTransposed(Value k, Value liveDepth, Value live, Value padded) {
  e.loop(e.index(0), padded, e.index(lanes), [&](Value position) {
    Value inPanel = b.create<arith::RemUIOp>(position, e.index(method.microColumns));
    Value panel = e.add(panelOffset(rightPanels(), position), inPanel);
    e.loop(e.index(0), unitsOf(liveDepth), e.index(lanes), [&](Value unit) {
      Value inside = e.mul(unit, e.index(perUnit));
      Value depthMask = e.laneMask(e.sub(liveDepth, inside), lanes * perUnit);
      SmallVector<Value> block;
      for (int64_t t = 0; t < lanes; ++t) {
        Value row = e.add(position, e.index(t));
        Value mask = e.both(depthMask, e.splat(isLive(right, row, live), lanes * perUnit));
        block.push_back(loadAlongDepth(right.view, e.add(right.offset, row), e.add(k, inside), mask));
      }
      transposeBlock(block);
      for (int64_t t = 0; t < lanes; ++t) {
        Value at = e.mul(e.add(unit, e.index(t)), e.index(method.microColumns));
        store(rightScratch, e.add(panel, at), block[t]);
      }
    });
  });
}

/// The left operand is only ever read one number at a time, so its rows are copied as they are, two vectors
/// of each at once.
void Packing::packLeftRows(Value k, Value liveDepth, Value live, Value padded) {
  Value ahead = firstLive(left), none = e.index(0), one = e.index(1);
  Value first = ahead ? e.minimum(b.createOrFold<arith::MaxSIOp>(ahead, none), live) : none;
  e.loop(none, unitsOf(liveDepth), e.index(2 * lanes), [&](Value unit) {
    Value begin[2], mask[2];
    for (int64_t half = 0; half < 2; ++half) {
      Value inside = e.mul(e.add(unit, e.index(half * lanes)), e.index(perUnit));
      begin[half] = e.add(k, inside);
      mask[half] = e.laneMask(e.sub(liveDepth, inside), lanes * perUnit);
    }
    auto storeHalf = [&](Value row, int64_t half, Value vector) {
      Value at = e.add(e.mul(row, e.index(leftStride())), e.add(unit, e.index(half * lanes)));
      store(leftScratch, at, vector);
    };
    auto clear = [&](Value row) {
      for (int64_t half = 0; half < 2; ++half)
        storeHalf(row, half, e.zeros(packed, lanes));
    };
    e.loop(none, first, one, clear);
    e.loop(first, live, one, [&](Value row) {
      for (int64_t half = 0; half < 2; ++half)
        storeHalf(row, half, loadAlongDepth(left.view, e.add(left.offset, row), begin[half], mask[half]));
    });
    e.loop(live, padded, one, clear);
  });
}

/// The same layout of rows that are contiguous along their free axis: lanes × lanes blocks are transposed.
void Packing::packLeftColumns(Value k, Value liveDepth, Value live, Value padded) {
  forUnits(k, liveDepth, lanes, [&](Value unit, Value lastK) { // a line of memory is read at once
    e.loop(e.index(0), padded, e.index(lanes), [&](Value row) {
      Value mask = liveLanes(left, row, live, lanes);
      SmallVector<Value> block;
      for (int64_t t = 0; t < lanes; ++t) {
        Value from = e.add(k, e.mul(e.add(unit, e.index(t)), e.index(perUnit)));
        block.push_back(loadAcrossDepth(left.view, from, lastK, e.add(left.offset, row), mask, lanes));
      }
      transposeBlock(block);
      for (int64_t t = 0; t < lanes; ++t) {
        Value at = e.add(e.mul(e.add(row, e.index(t)), e.index(leftStride())), unit);
        store(leftScratch, at, block[t]);
      }
    });
  });
}

} // namespace tilewright::cpu
