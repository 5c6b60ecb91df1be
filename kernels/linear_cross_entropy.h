#pragma once

#include <cstdint>

#include "compiler/base/status.h"
#include "kernels/loss_options.h"
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
  bool quietZeros = true;
  bool accumulate = false; ///< dWeight and dBias are added to what their buffers hold
};

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
};

/// The cross entropy of the logits X·Wᵀ, and its gradients, without the N×V logits in memory. Compiles its
/// kernels at the first call for a combination of types and options; the number of rows never compiles
/// anything again.
///
/// A tuned configuration is used where there is one for the device and such a problem, and it fits the limit
/// (TILEWRIGHT_AUTOTUNE says otherwise). One configuration gives the same bits whatever the number of
/// threads; two may differ in the last bits, as they sum S in another order.
///
/// User errors: shapes, types or options that do not fit, a workspace limit that no variant meets (the
/// message says the smallest possible one), a label that is neither a class nor the ignore index (naming the
/// first and its row; the outputs then hold the result with such rows ignored). On a GPU nobody has seen the
/// labels when the call returns: the next call that waits for the device has that error.
StatusOr<LossReport> linearCrossEntropy(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                                        const LinearCrossEntropyOptions &options, Stream stream = nullptr);

} // namespace tilewright
