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

struct LinearCrossEntropyOptions : LossOptions {
  Variant variant = Variant::automatic;
  int64_t workspaceLimit = 0; ///< bytes of device memory beside inputs and outputs; 0: no limit
  std::optional<Margin> lmcl; ///< instead of z above; with neither bias, softcap nor logit scale
  bool tf32 =
      false; ///< products of f32 matrices round their operands to TF32's 10 bits, which tensor cores do
  /// The gradients of bf16 matrices take probabilities below 2^-30 as 0: less than 2^-30 V of a row's mass,
  /// which bf16's own rounding exceeds. Zeros cost a GPU no power, which it turns into speed.
  bool flushSmallProbabilities = true;
  bool accumulate = false; ///< dWeight and dBias are added to what their buffers hold
  /// A configuration, as `PreparedLinearCrossEntropy::configuration` prints it, instead of the tuned or
  /// planned one; empty: none is pinned. The same text gives the same bits on every machine of one kind.
  std::string configuration;
};

bool operator==(const LinearCrossEntropyOptions &a, const LinearCrossEntropyOptions &b);

/// The tensors of one call, in the device's memory. An output whose `data` is null is not computed; with
/// neither `dHidden` nor `dWeight` no gradient is. Rows of the matrices may lie apart (`rowStride`). No
/// output may overlap another tensor; what it holds before a call is done is not defined. A tensor without
/// elements may have any pointer but null.
struct LinearCrossEntropyTensors {
  TensorRef hidden; ///< X, N×H, f32, bf16 or f16
  TensorRef weight; ///< W, V×H, of X's type
  TensorRef label;  ///< N, i32 or i64: 0 … V-1, or the ignore index

  TensorRef gradOutput; ///< f32; the gradient that arrives for the loss: 1 value, or N with Reduction::none.
                        ///< Null: 1

  TensorRef loss;    ///< f32; 1 value, or N with Reduction::none (0 for an ignored row)
  TensorRef lse;     ///< f32, N: log Σ_j exp(z_ij); 0 for an ignored row
  TensorRef dHidden; ///< N×H, f32 or X's type
  TensorRef dWeight; ///< V×H, f32 or X's type; summed in fp32 either way

  TensorRef bias = {};        ///< V, f32 or X's type. Null: 0
  TensorRef classWeight = {}; ///< V, f32, none negative. Null: 1
  TensorRef gradLse = {};     ///< N, f32: further gradients that arrive, for lse and entropy. Null: 0
  TensorRef gradEntropy = {};

  TensorRef dBias = {};     ///< V, f32 or the bias's type
  TensorRef entropy = {};   ///< f32, N: −Σ_j p log p; 0 for an ignored row
  TensorRef argmax = {};    ///< i32, N: the first class with the largest logit; -1 for an ignored row
  TensorRef correct = {};   ///< i32, N: 1 where argmax is the label, else 0
  TensorRef monitored = {}; ///< f32, kMonitoredQuantities

  TensorRef savedLse = {}; ///< f32, N: of a backward call, the lse that the forward call stored. Else null
};

/// A call that is planned once, and whose kernels are loaded: from here on it is a list of launches. It
/// refers to its Runtime, which outlives it. Copies share everything; any thread may run it, also while it
/// runs elsewhere.
class PreparedLinearCrossEntropy {
public:
  /// `tensors` say which tensors there will be, of which shapes, types and strides. Of addresses it matters
  /// whether they are null, and whether the matrices are aligned to 16 bytes (wgmma and TMA need that);
  /// nothing is read or written. A tuned configuration is used where there is one for the device and such a
  /// problem, and it fits the limit (TILEWRIGHT_AUTOTUNE says otherwise).
  ///
  /// User errors: shapes, types or options that do not fit, a workspace limit that no variant meets (the
  /// message says the smallest possible one).
  static StatusOr<PreparedLinearCrossEntropy> prepare(Runtime &runtime,
                                                      const LinearCrossEntropyTensors &tensors,
                                                      const LinearCrossEntropyOptions &options,
                                                      CallPass pass = CallPass::fused);

  /// Bytes of device memory that a run needs, whatever the addresses of its tensors.
  int64_t workspaceBytes() const { return call_->workspaceBytes(); }
  Variant variant() const { return variant_; }
  /// For people: tiles, chunks and slices, on one line.
  const std::string &description() const { return description_; }
  /// The configuration as text, which `LinearCrossEntropyOptions::configuration` takes; empty for the variant
  /// recompute, which is not tuned.
  const std::string &configuration() const { return configuration_; }
  const Program &program() const { return call_->program(); }

  /// Enqueues the call's work on the stream; waits for nothing, allocates nothing, and may be captured in a
  /// CUDA graph. The tensors, the workspace and the status must outlive the work. User errors: a tensor that
  /// is not as prepared, outputs that overlap other tensors, memory that the device does not reach, a
  /// workspace that is too small. On a CPU, where the work is done when this returns, also a label that is
  /// neither a class nor the ignore index, and a class weight that is negative or not finite: the outputs
  /// then hold the result with such rows ignored. On a GPU nobody has seen those yet: `CallMemory::status`
  /// gets them.
  Status run(const LinearCrossEntropyTensors &tensors, const CallMemory &memory, Stream stream) const;

  /// Whether `run` takes such tensors.
  bool fits(const LinearCrossEntropyTensors &tensors) const;

private:
  PreparedLinearCrossEntropy() = default;

  std::shared_ptr<const PreparedCall> call_;
  Variant variant_ = Variant::automatic;
  bool isAligned_ = false;
  std::string description_, configuration_;
};

/// The cross entropy of the logits X·Wᵀ, and its gradients, without the N×V logits in memory. Prepares the
/// call, or takes the one that was prepared for the last such tensors and options; compiles kernels that were
/// never needed before. Takes the workspace from the device in the stream's order.
///
/// One configuration gives the same bits whatever the number of threads; two may differ in the last bits, as
/// they sum S in another order.
///
/// User errors: as `prepare` and `run`. On a GPU nobody has seen the labels and class weights when the call
/// returns: `LossReport::status` then says whether somebody has, and what is wrong with them.
StatusOr<LossReport> linearCrossEntropy(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                                        const LinearCrossEntropyOptions &options, Stream stream);

/// dL/dX, dL/dW and dL/db from the lse that a forward call left in `tensors.savedLse`: E is made again, of
/// which each element is at most 1, and four products in all replace three. For upstream gradients of the
/// rows, of lse or entropy, and for a second backward.
StatusOr<LossReport> linearCrossEntropyBackward(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                                                const LinearCrossEntropyOptions &options, Stream stream);

} // namespace tilewright
