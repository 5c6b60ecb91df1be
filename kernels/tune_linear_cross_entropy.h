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
                                               const TunerOptions &tuner, Stream stream);

/// Where TILEWRIGHT_AUTOTUNE is `write` and no record is known: searches with the call's inputs, into outputs
/// of its own, and keeps the record. Whatever goes wrong is a warning, and is not tried again by this
/// process. User errors as `linearCrossEntropy`.
Status tuneIfAsked(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                   const LinearCrossEntropyOptions &options, Stream stream);

} // namespace tilewright
