#include "tools/io/tensors.h"

#include <cstring>

#include "tools/io/number_formats.h"

namespace tilewright {
namespace {

std::vector<uint16_t> bitsOf(const std::vector<float> &values, ElementType element) {
  std::vector<uint16_t> bits(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    bits[i] = element == ElementType::bf16 ? bf16FromDouble(values[i]) : f16FromDouble(values[i]);
  return bits;
}

std::vector<float> valuesOf(const std::vector<uint16_t> &bits, ElementType element) {
  std::vector<float> values(bits.size());
  for (std::size_t i = 0; i < bits.size(); ++i)
    values[i] = element == ElementType::bf16 ? floatFromBf16(bits[i]) : floatFromF16(bits[i]);
  return values;
}

} // namespace

StatusOr<OwnedTensor> allocateTensor(Device &device, ElementType element, const std::vector<int64_t> &shape) {
  const bool isVector = shape.size() == 1;
  const int64_t elements = isVector ? shape[0] : shape[0] * shape[1];
  TW_ASSIGN_OR_RETURN(Buffer buffer, device.allocate(elements * elementBytes(element), nullptr));
  const TensorRef ref = isVector ? TensorRef::vector(buffer.data(), element, shape[0])
                                 : TensorRef::matrix(buffer.data(), element, shape[0], shape[1]);
  return OwnedTensor{std::move(buffer), ref};
}

StatusOr<OwnedTensor> uploadBytes(Device &device, ElementType element, const std::vector<int64_t> &shape,
                                  const void *bytes) {
  TW_ASSIGN_OR_RETURN(OwnedTensor tensor, allocateTensor(device, element, shape));
  TW_RETURN_IF_ERROR(
      device.copyToDevice(tensor.ref.data, bytes, tensor.ref.elements() * elementBytes(element), nullptr));
  TW_RETURN_IF_ERROR(device.synchronize(nullptr)); // `bytes` may go away now
  return tensor;
}

StatusOr<OwnedTensor> uploadFloats(Device &device, ElementType element, const std::vector<int64_t> &shape,
                                   const std::vector<float> &values) {
  if (element == ElementType::f32) return uploadBytes(device, element, shape, values.data());
  return uploadBytes(device, element, shape, bitsOf(values, element).data());
}

StatusOr<std::vector<float>> download(Device &device, const TensorRef &tensor) {
  const std::size_t elements = static_cast<std::size_t>(tensor.elements());
  if (tensor.element == ElementType::f32) {
    std::vector<float> values(elements);
    TW_RETURN_IF_ERROR(device.copyToHost(values.data(), tensor.data, elements * sizeof(float), nullptr));
    return values;
  }
  std::vector<uint16_t> bits(elements);
  TW_RETURN_IF_ERROR(device.copyToHost(bits.data(), tensor.data, elements * sizeof(uint16_t), nullptr));
  return valuesOf(bits, tensor.element);
}

std::vector<float> rounded(std::vector<float> values, ElementType element) {
  if (element == ElementType::f32) return values;
  return valuesOf(bitsOf(values, element), element);
}

} // namespace tilewright
