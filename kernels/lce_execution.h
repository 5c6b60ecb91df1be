#pragma once

#include <memory>

#include "kernels/lce/plan.h"
#include "kernels/linear_cross_entropy.h"

namespace tilewright::lce {

/// The two halves of a call, between which a configuration is chosen.

/// User errors as `linearCrossEntropy` promises them, those of labels and workspace limits aside.
StatusOr<Problem> validate(const LinearCrossEntropyTensors &tensors, const LinearCrossEntropyOptions &options,
                           const DeviceInfo &device);

StatusOr<LossReport> execute(Runtime &runtime, const Problem &problem, const Config &config,
                             const LinearCrossEntropyTensors &tensors,
                             const LinearCrossEntropyOptions &options, Stream stream);

/// Where a configuration is measured: a call whose products can be enqueued alone, again and again. What it
/// refers to outlives it.
class Rehearsal {
public:
  virtual ~Rehearsal() = default;

  /// `workspace` has the bytes that `layOut` says.
  static StatusOr<std::unique_ptr<Rehearsal>> make(Runtime &runtime, const Problem &problem,
                                                   const Config &config,
                                                   const LinearCrossEntropyTensors &tensors,
                                                   const LinearCrossEntropyOptions &options,
                                                   const Buffer &workspace, Stream stream);

  /// The whole call.
  virtual Status run() = 0;
  /// What a product needs that a whole call of another configuration may not have left behind it.
  virtual Status prepare(ProductKind product) = 0;
  /// A product as it is done for most chunks. Before it some whole call was run in this workspace, for the
  /// gradients' products one with the same chunks and columns of the forward block. Results accumulate.
  virtual Status repeat(ProductKind product) = 0;
};

} // namespace tilewright::lce
