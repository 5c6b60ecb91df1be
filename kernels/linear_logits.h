#pragma once

#include <optional>

#include "compiler/base/status.h"
#include "kernels/loss_options.h"
#include "runtime/device.h"

namespace tilewright {

class Runtime;

/// How logits are made of products; each as in `LossOptions` and `LinearCrossEntropyOptions`.
struct LogitOptions {
  float logitScale = 1;
  std::optional<float> softcap;
  std::optional<Margin> lmcl; ///< scale · cos(x_i, w_j); the margin is for labels, of which there are none
  bool tf32 = false;
};

/// In the device's memory; `logits` overlaps no other tensor.
struct LinearLogitsTensors {
  TensorRef hidden;    ///< X, N×H, f32, bf16 or f16
  TensorRef weight;    ///< W, V×H, of X's type
  TensorRef bias = {}; ///< V, f32 or X's type. Null: 0
  TensorRef logits;    ///< N×V, f32 or X's type
};

/// The logits that `linearCrossEntropy` takes the cross entropy of, for callers who want to see them: to
/// sample from, or to evaluate. User errors: shapes, types or options that do not fit.
StatusOr<LossReport> linearLogits(Runtime &runtime, const LinearLogitsTensors &tensors,
                                  const LogitOptions &options, Stream stream);

} // namespace tilewright
