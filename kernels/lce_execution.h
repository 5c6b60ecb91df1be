#pragma once

#include "kernels/lce/plan.h"
#include "kernels/linear_cross_entropy.h"

namespace tilewright::lce {

/// The two halves of a call, between which a configuration is chosen.

/// User errors as `linearCrossEntropy` promises them, those of labels and workspace limits aside.
StatusOr<Problem> validate(const LinearCrossEntropyTensors &tensors,
                           const LinearCrossEntropyOptions &options);

StatusOr<LossReport> execute(Runtime &runtime, const Problem &problem, const Config &config,
                             const LinearCrossEntropyTensors &tensors,
                             const LinearCrossEntropyOptions &options, Stream stream);

} // namespace tilewright::lce
