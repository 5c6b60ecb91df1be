#pragma once

#include "compiler/cpu/emitter.h"

namespace tilewright::cpu {

/// One side of a product: positions [offset, …) along the free axis of a rank-2 view, all of the contracted
/// axis.
struct ProductOperand {
  MemoryView view;
  Value offset;
  int contractedAxis = 1;
  bool mayBeNegative =
      false; ///< the offset; positions below the view's first are outside, as those past its last
};

/// How a processor multiplies two operands.
struct ProductMethod {
  bool inTiles;                    ///< in AMX's tile registers
  bool inPairs;                    ///< packed elements are pairs of bf16; else they are fp32
  int64_t microRows, microColumns; ///< of a micro tile, whose sums stay in registers
};
ProductMethod productMethod(const Machine &machine, Type left, Type right);

/// Whether the left operand needs no packing: the inner loop takes its numbers one at a time, as they are.
bool readsInPlace(const Machine &machine, const ProductOperand &left, const ProductOperand &right);

/// Bytes of the packed panels of a product with such accumulators.
int64_t packedLeftBytes(const Machine &machine, const ProductMethod &method, int64_t rows);
int64_t packedRightBytes(const Machine &machine, const ProductMethod &method, int64_t columns);

/// Both operands as the inner loop reads them, a step of the contracted axis at a time. A packed element, or
/// unit, has 32 bits: it is an fp32 number, or a pair of bf16 numbers adjacent along the contracted axis
/// where the processor multiplies such pairs. Numbers outside of an operand's view are zeros.
class Packing {
public:
  /// Scratch memory for either operand; null for one that is read in place.
  Packing(Emitter &emitter, const ProductOperand &left, const ProductOperand &right, Value leftScratch,
          Value rightScratch);

  Type elementType() const { return packed; }
  Value unitsOf(Value depth) { return e.ceilDiv(depth, perUnit); }

  /// Packs `liveDepth` numbers of the contracted axis, from k on, of so many rows of the left operand or
  /// columns of the right one. One that is read in place stays as it is.
  void packLeft(Value k, Value liveDepth, Value live);
  void packRight(Value k, Value liveDepth, Value live);

  /// Where a micro tile's rows of the left operand begin, and how far their units lie apart.
  struct Rows {
    llvm::SmallVector<Value> begins;
    int64_t stride;
  };
  /// Of the step at k; `live` rows exist.
  Rows leftRows(Value k, Value row, Value live);
  /// Whether the last row that exists stands for those of its micro tile that do not: else these are zeros.
  bool repeatsLastRow() const { return leftInPlace; }

  /// Of operands that are multiplied in tiles: the first unit of a row, and the distance of rows in units.
  Value leftRow(Value row);
  int64_t leftStride() const;
  /// The panel of a micro tile that begins at this column: one unit of microColumns columns after the other.
  Value rightPanel(Value column);

private:
  /// Of some adjacent positions along the free axis: one unit of the contracted axis after the other, each of
  /// `slots` elements, the last of which may be unused.
  struct Panels {
    Value base;
    int64_t positions, slots;
  };
  Rows packedRows(Value row);
  Rows rowsInPlace(Value k, Value row, Value live);
  Panels leftPanels() const;
  Panels rightPanels() const { return {rightScratch, method.microColumns, method.microColumns}; }
  Value panelOffset(const Panels &panels, Value position);

  Value firstLive(const ProductOperand &operand);
  Value isLive(const ProductOperand &operand, Value position, Value live);
  Value liveLanes(const ProductOperand &operand, Value position, Value live, int64_t count);
  Value loadAlongDepth(const MemoryView &view, Value row, Value k, Value mask);
  Value loadAcrossDepth(const MemoryView &view, Value k, Value lastK, Value position, Value mask,
                        int64_t count);
  Value roundedToTf32(Value vector);
  void store(Value base, Value offset, Value vector);
  void transposeBlock(llvm::SmallVector<Value> &block);

  void forUnits(Value k, Value liveDepth, int64_t atOnce,
                llvm::function_ref<void(Value unit, Value lastK)> body);
  void packMinor(const ProductOperand &operand, const Panels &panels, Value k, Value liveDepth, Value live,
                 Value padded);
  void packTransposed(Value k, Value liveDepth, Value live, Value padded);
  void packLeftRows(Value k, Value liveDepth, Value live, Value padded);
  void packLeftColumns(Value k, Value liveDepth, Value live, Value padded);

  Emitter &e;
  mlir::ImplicitLocOpBuilder &b;
  const ProductOperand &left, &right;
  Value leftScratch, rightScratch;
  ProductMethod method;
  int64_t lanes, perUnit, units; ///< units: of a step
  Type packed;                   ///< the type of a packed element
  bool leftInPlace;
};

} // namespace tilewright::cpu
