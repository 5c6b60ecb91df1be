#pragma once

#include "kernels/lce/scheme.h"
#include "kernels/program/tensor_table.h"

namespace tilewright::lce {

/// Adds the tensors that the caller gives, and the call's outputs of one number a row. Such an output is in
/// the workspace where the call needs it and the caller gives no memory for it.
void addCallersTensors(const Scheme &scheme, TensorTable &table);

} // namespace tilewright::lce
