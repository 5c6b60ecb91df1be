#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/base/status.h"
#include "compiler/target.h"
#include "kernels/cross_entropy.h"
#include "kernels/jit.h"
#include "kernels/linear_cross_entropy.h"
#include "runtime/device.h"

namespace tilewright {

/// What a program calls of one loss, for every number of rows up to `mostRows`: the loss alone (with lse),
/// the loss with any of its gradients, and with linear cross entropy the backward pass from a saved lse; with
/// an upstream gradient and without; labels of i32 and i64; and what multiplies saved gradients by the
/// upstream one.
struct CoveredCalls {
  int64_t mostRows = 0, hidden = 0, classes = 0; ///< N, H, V; H has no meaning over logits
  bool overLogits = false;
  /// Ranks that share the V classes: the calls are those of a rank (sharded_linear_cross_entropy.h), which
  /// has V / R of them, rounded up or down, or what is left for the last rank by ranks that round up. 0: one
  /// device has all classes.
  int64_t shards = 0;
  ElementType element = ElementType::f32;
  ElementType dHidden = ElementType::f32; ///< of dX, over logits of their gradient: f32 or `element`
  ElementType dWeight = ElementType::f32; ///< of dW: f32 or `element`
  bool bias = false;                      ///< of f32, and of `element`; db of f32 and of the bias's type
  bool classWeight = false;
  bool entropy = false, argmax = false, correct = false, monitored = false; ///< these outputs are there
  bool gradLse = false;     ///< calls with gradients may have one that arrives for lse,
  bool gradEntropy = false; ///< and one for entropy
  /// Whether calls with matrices that do not begin at multiples of 16 bytes are covered, too. They need
  /// kernels of their own on a GPU with wgmma alone.
  bool unaligned = false;
  LinearCrossEntropyOptions options; ///< of cross entropy over logits those that `LossOptions` has

  /// For people: "linear cross entropy of bf16, N up to 16384, H 4096, V 128256, mean, z-loss".
  std::string str() const;
};

/// Kernels by KernelKey::str.
using KernelSet = std::map<std::string, JitRequest>;

/// Adds all kernels that such calls need on such a device. Nothing is compiled. A user error is that of the
/// first number of rows for which a call is refused.
Status addKernels(const CoveredCalls &calls, const Target &target, const DeviceInfo &device,
                  KernelSet &kernels);

} // namespace tilewright
