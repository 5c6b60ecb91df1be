#pragma once

#include "autotune/tuner.h"
#include "kernels/linear_cross_entropy.h"

namespace tilewright {

/// Which tuning record is good for a call; user errors as `linearCrossEntropy`. Reads no tensor's data.
StatusOr<TuningKey> tuningKey(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                              const LinearCrossEntropyOptions &options);

/// Searches for the best configurations of a call, with its own data; all outputs hold some result
/// afterwards. The record of the outcome is kept nowhere.
StatusOr<TuningOutcome> tuneLinearCrossEntropy(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                                               const LinearCrossEntropyOptions &options,
                                               const TunerOptions &tuner, Stream stream = nullptr);

} // namespace tilewright
