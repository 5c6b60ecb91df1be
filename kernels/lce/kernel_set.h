#pragma once

#include "kernels/lce/plan.h"
#include "runtime/runtime.h"

namespace tilewright::lce {

/// For chunks in that order: of a gradient that they all add to. With one chunk, only the first is there; the
/// last differs where it stores what sums in a buffer become.
struct PartKernels {
  KernelHandle first, next, last;
};

/// The loaded kernels of one problem and configuration; those it has no use for stay null.
struct KernelSet {
  KernelHandle compactRows, gatherRows, pendingRows, forward, checkAnchor, combine, reduceLoss;
  KernelHandle totalSums, forwardOfBlocks; ///< where totals alone are wanted
  KernelHandle joinSums;                   ///< where there are totals, for checkAnchor
  KernelHandle rankLabels, oneHotSum, scaleRows;
  KernelHandle dHidden, dHiddenParts, dHiddenTotal; ///< the last two of a chunk's tail
  PartKernels dWeight, dBias;
  KernelHandle widenSums, roundSums;               ///< before and after sums of a dW of 16 bits
  KernelHandle copyRows, copyWidened, again, keep; ///< of a second pass

  // Of some options only.
  KernelHandle rowWeights, weightFacts, classNorms, normalise;
  KernelHandle complete, monitor;
  KernelHandle sumClasses, sumRows, sumParts;
  KernelHandle sumExponentials, labelSums;
};

StatusOr<KernelSet> makeKernels(Runtime &runtime, const Problem &problem, const Config &config);

/// Compiles the kernels of one product, one by one: whoever compiles many has threads enough.
Status compileProduct(Runtime &runtime, const Problem &problem, const Config &config, ProductKind product);

} // namespace tilewright::lce
