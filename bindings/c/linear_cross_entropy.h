#pragma once

#include "bindings/c/handles.h"
#include "kernels/linear_cross_entropy.h"

namespace tilewright::c {

/// User errors name the field that does not fit.
Status readTensors(const tw_linear_cross_entropy_tensors *given, DevicePlace place, Use use,
                   LinearCrossEntropyTensors &tensors);
StatusOr<CallPass> readPass(int32_t pass);
/// Null: the defaults.
Status readOptions(const tw_linear_cross_entropy_options *given, LinearCrossEntropyOptions &options);

} // namespace tilewright::c
