#pragma once

#include <vector>

#include "compiler/base/status.h"
#include "kernels/jit.h"
#include "runtime/device.h"
#include "runtime/runtime.h"

namespace tilewright {

/// Multiplies a saved gradient by the upstream gradient, once that is known: what a backward call is where
/// the forward call has made the gradients of a loss that is a mean or a sum. Any thread may run it.
class GradientScaling {
public:
  /// For results of one type; f32, bf16 or f16.
  static StatusOr<GradientScaling> prepare(Runtime &runtime, ElementType element);

  /// The kernels that `prepare` loads.
  static std::vector<JitRequest> kernels(ElementType element);

  /// result = scale · gradient, with one f32 number in the device's memory; enqueued on the stream, and no
  /// host reads it. Matrices of one shape, or vectors. The gradient is of the result's type, or f32: a mean's
  /// gradients may be too small for f16 until they are scaled. The result may be the gradient itself: where
  /// the scale is 1, the usual case, the kernel then returns at once. Else no part of it may overlap the
  /// gradient, nor the scale in any case. User errors: that, other shapes or types, memory that the device
  /// does not reach.
  Status run(const TensorRef &gradient, const TensorRef &scale, const TensorRef &result, Stream stream) const;

  /// first *= scale and second *= scale, in one launch: two matrices of as many columns, such as dX and dW.
  /// User errors: as above, and matrices that overlap one another.
  Status runPair(const TensorRef &first, const TensorRef &second, const TensorRef &scale,
                 Stream stream) const;

private:
  GradientScaling(Device &device, ElementType element, const std::vector<KernelHandle> &made)
      : device_(&device), element_(element), inPlace_(made[0]), pair_(made[1]), apart_(made[2]),
        rounding_(made.back()) {}

  Device *device_;
  ElementType element_;
  KernelHandle inPlace_, pair_, apart_, rounding_; ///< as `kernels` orders them; `rounding_` reads f32
};

} // namespace tilewright
