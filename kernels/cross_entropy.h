#pragma once

#include <cstdint>

#include "compiler/base/status.h"
#include "kernels/loss_options.h"
#include "runtime/device.h"

namespace tilewright {

class Runtime;

struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  int64_t ignoreIndex = kDefaultIgnoreIndex;
};

/// The tensors of one call, in the device's memory. An output whose `data` is null is not computed.
struct CrossEntropyTensors {
  TensorRef logits;     ///< Z, N×V, f32, bf16 or f16
  TensorRef label;      ///< N, i32 or i64: 0 … V-1, or the ignore index
  TensorRef gradOutput; ///< f32; 1 value, or N with Reduction::none. Null: 1

  TensorRef loss;    ///< f32; 1 value, or N with Reduction::none (0 for an ignored row)
  TensorRef lse;     ///< f32, N; 0 for an ignored row
  TensorRef dLogits; ///< N×V, f32 or Z's type; may be the logits themselves, which it then replaces
};

/// The cross entropy of logits in memory, and its gradient. Errors as `linearCrossEntropy`.
StatusOr<LossReport> crossEntropy(Runtime &runtime, const CrossEntropyTensors &tensors,
                                  const CrossEntropyOptions &options, Stream stream = nullptr);

} // namespace tilewright
