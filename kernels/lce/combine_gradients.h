#pragma once

#include "kernels/lce/forward_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

/// Parameters of a kernel that makes the factors of the gradients.
struct GradientParameters {
  UpstreamParameters upstream;
  View x, rate, targetRate, unitOfE, scale, oneHot, scaled, factor, moment, uniform, self;

  void declare(KernelBuilder &k, const CombineSpec &spec);
  /// Of E, where another kernel has told it; else not valid.
  Tile unit(const Range &rows) const { return unitOfE.valid() ? unitOfE[rows] : Tile(); }
};

/// Of rows whose classes ranks share, what is this rank's.
struct OwnClasses {
  Tile isLabel;  ///< the row's label is
  Tile isFirst;  ///< this is the first rank, which adds what x_i gets beside x_i·w_j
  Tile distance; ///< a_r - a: of E's shift from that of the row's facts
  Tile scale;    ///< exp of it
  Tile others;   ///< Σ E
  Tile mend;     ///< Σ E over what of it is stored; not valid: 1
};

/// What is known of rows of E.
struct RowsOfE {
  Tile others; ///< Σ E
  Tile unit;   ///< `unit_e` of `joinSums`; not valid where E is no f16 to be rescaled
};

/// What a row's factors are stored as. `own`: null where a call has all classes.
void storeGradients(KernelBuilder &k, const CombineSpec &spec, const GradientParameters &p, const Range &rows,
                    const RowFacts &row, const RowTotals &totals, const RowsOfE &e,
                    const OwnClasses *own = nullptr);

/// Rounding E moved a row's mass from one number to another, which a factor of the row undoes: then the
/// weights of W's rows in dX sum to 0 as they should, so that what W's rows have in common cancels. `others`
/// is Σ E.
Tile mend(const PerRowSum<Tile> &sums, const Tile &others);

/// Σ over a row's blocks.
Tile sumOfBlocks(KernelBuilder &k, const View &sums, const Range &rows);
/// What undoes the unit of the numbers that it adds up.
double undoesUnit(RowSum sum);
/// For kernels' specialisations.
std::string gradientsStr(const CombineSpec &spec);

} // namespace tilewright::lce
