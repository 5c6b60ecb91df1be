#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "compiler/base/status.h"
#include "kernels/loss_options.h"
#include "kernels/program/prepared_call.h"
#include "runtime/device.h"

namespace tilewright {

class Runtime;

using CrossEntropyOptions = LossOptions;

/// The tensors of one call, in the device's memory. An output whose `data` is null is not computed.
struct CrossEntropyTensors {
  TensorRef logits;     ///< t in `LossOptions`, N×V, f32, bf16 or f16
  TensorRef label;      ///< N, i32 or i64: 0 … V-1, or the ignore index
  TensorRef gradOutput; ///< f32; 1 value, or N with Reduction::none. Null: 1

  TensorRef loss;    ///< f32; 1 value, or N with Reduction::none (0 for an ignored row)
  TensorRef lse;     ///< f32, N; 0 for an ignored row
  TensorRef dLogits; ///< N×V, f32 or the logits' type; may be the logits themselves, which it then replaces

  TensorRef classWeight = {}; ///< V, f32, none negative. Null: 1
  TensorRef gradLse = {};     ///< N, f32: further gradients that arrive, for lse and entropy. Null: 0
  TensorRef gradEntropy = {};

  TensorRef entropy = {};   ///< f32, N: −Σ_j p log p; 0 for an ignored row
  TensorRef argmax = {};    ///< i32, N: the first class with the largest logit; -1 for an ignored row
  TensorRef correct = {};   ///< i32, N: 1 where argmax is the label, else 0
  TensorRef monitored = {}; ///< f32, kMonitoredQuantities
};

/// As `PreparedLinearCrossEntropy`, of cross entropy over logits.
class PreparedCrossEntropy {
public:
  static StatusOr<PreparedCrossEntropy> prepare(Runtime &runtime, const CrossEntropyTensors &tensors,
                                                const CrossEntropyOptions &options);

  int64_t workspaceBytes() const { return call_->workspaceBytes(); }
  Variant variant() const { return variant_; }
  const std::string &description() const { return description_; }
  const Program &program() const { return call_->program(); }
  Status run(const CrossEntropyTensors &tensors, const CallMemory &memory, Stream stream) const;
  bool fits(const CrossEntropyTensors &tensors) const;

private:
  PreparedCrossEntropy() = default;

  std::shared_ptr<const PreparedCall> call_;
  Variant variant_ = Variant::automatic;
  std::string description_;
};

/// The cross entropy of logits in memory, and its gradient. Rows are read once for the loss, and once more
/// for any of gradient, entropy, argmax, correct and monitored quantities; gradEntropy costs one more
/// reading. Errors as `linearCrossEntropy`.
StatusOr<LossReport> crossEntropy(Runtime &runtime, const CrossEntropyTensors &tensors,
                                  const CrossEntropyOptions &options, Stream stream);

/// The program of a call on such a device; nothing is compiled or loaded.
StatusOr<Program> crossEntropyProgram(const CrossEntropyTensors &tensors, const CrossEntropyOptions &options,
                                      const Target &target, const DeviceInfo &device);

/// The bytes of device memory that such a call takes beside its tensors. Computes nothing and reads no
/// tensor's data. Errors as `crossEntropy`, those of data aside.
StatusOr<int64_t> crossEntropyWorkspaceBytes(const CrossEntropyTensors &tensors,
                                             const CrossEntropyOptions &options);

} // namespace tilewright
