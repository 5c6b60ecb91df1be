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

/// rows × columns fp32 accumulators in scratch, row after row; both are whole numbers of micro tiles.
struct Accumulators {
  Value pointer;
  int64_t rows, columns;
};

/// How a processor multiplies two operands.
struct ProductMethod {
  bool inTiles;                    ///< in AMX's tile registers
  bool inPairs;                    ///< packed elements are pairs of bf16; else they are fp32
  int64_t microRows, microColumns; ///< of a micro tile, whose sums stay in registers
};
ProductMethod productMethod(const Machine &machine, Type left, Type right);

/// Scratch memory of a product: packed panels of both operands, and what sums in tile registers pass through.
struct ProductScratch {
  Value left, right;
  Value tiles; ///< null where none are used
};

/// Bytes of the packed panels of a product with such accumulators.
int64_t packedLeftBytes(const Machine &machine, const ProductMethod &method, int64_t rows);
int64_t packedRightBytes(const Machine &machine, const ProductMethod &method, int64_t columns);

/// accumulators[r, c] = Σ_k left[r, k]·right[c, k] (each operand read along its own contracted axis). Blocks
/// of the contracted axis are packed, the right side in panels as wide as a micro tile, and multiplied in
/// registers.
void emitProduct(Emitter &emitter, const ProductOperand &left, const ProductOperand &right,
                 const ProductScratch &scratch, const Accumulators &accumulators);

} // namespace tilewright::cpu
