#pragma once

#include <cstdint>
#include <vector>

#include "compiler/base/status.h"
#include "runtime/device.h"

namespace tilewright {

/// A tensor in a device's memory, and that memory. Without a buffer it stands for no tensor.
struct OwnedTensor {
  Buffer buffer;
  TensorRef ref;
};

/// `shape` has one or two sizes. The memory is not cleared.
StatusOr<OwnedTensor> allocateTensor(Device &device, ElementType element, const std::vector<int64_t> &shape);

/// A tensor with these bytes, which are laid out as its elements.
StatusOr<OwnedTensor> uploadBytes(Device &device, ElementType element, const std::vector<int64_t> &shape,
                                  const void *bytes);

/// A tensor with these values, each rounded to `element`.
StatusOr<OwnedTensor> uploadFloats(Device &device, ElementType element, const std::vector<int64_t> &shape,
                                   const std::vector<float> &values);

/// The values of a tensor of f32, bf16 or f16 whose rows are adjacent.
StatusOr<std::vector<float>> download(Device &device, const TensorRef &tensor);

/// What remains of `values` once they have been rounded to `element`.
std::vector<float> rounded(std::vector<float> values, ElementType element);

} // namespace tilewright
