#pragma once

#include "kernels/lce/combine_gradients.h"

namespace tilewright::lce {

/// What the kernels that make rows' losses have in common: `combine`, and `mergeShards` where ranks share the
/// classes.
struct RowParameters : GradientParameters {
  View row, label, rowNorm; ///< each kernel declares them among its own inputs
  View rowLoss, lse, entropy, argmax, correct, top, norm;

  /// What is stored of each row, and the gradients' parameters.
  void declareResults(KernelBuilder &k, const CombineSpec &spec);

  /// Rows of which the kernel has yet to say shift, distance and sums.
  RowFacts begin(KernelBuilder &k, const Range &rows) const;
  /// What follows from these and from Σ E.
  void complete(const CombineSpec &spec, const Range &rows, const Tile &others, RowFacts &facts) const;

  void storeLoss(const CombineSpec &spec, const RowFacts &facts, const Tile &loss) const;
  /// The largest logit and its class, which the spec's outputs ask for.
  void storeBest(const CombineSpec &spec, const RowFacts &facts, const Tile &largest,
                 const Tile &itsClass) const;
};

/// For kernels' specialisations: gradients and sums.
std::string sumsStr(const CombineSpec &spec);

} // namespace tilewright::lce
