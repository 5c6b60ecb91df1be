#pragma once

#include "compiler/cpu/packing.h"

namespace tilewright::cpu {

/// rows × columns fp32 accumulators in scratch, row after row; both are whole numbers of micro tiles.
struct Accumulators {
  Value pointer;
  int64_t rows, columns;
};

/// Scratch memory of a product: packed panels of both operands, and what sums in tile registers pass through.
struct ProductScratch {
  Value left; ///< null where it is read in place
  Value right;
  Value tiles; ///< null where none are used
};

/// accumulators[r, c] = Σ_k left[r, k]·right[c, k] (each operand read along its own contracted axis). Blocks
/// of the contracted axis are packed, the right side in panels as wide as a micro tile, and multiplied in
/// registers.
void emitProduct(Emitter &emitter, const ProductOperand &left, const ProductOperand &right,
                 const ProductScratch &scratch, const Accumulators &accumulators);

} // namespace tilewright::cpu
