#pragma once

#include "kernels/lce/config.h"
#include "kernels/program/tensor_table.h"

namespace tilewright::lce {

/// Adds what a call of a vocabulary shard has beside other calls' tensors, and keeps a copy of chunks'
/// tensors for each chunk at work. So it comes last.
void addShardTensors(const Scheme &scheme, const Config &config, TensorTable &table);

} // namespace tilewright::lce
