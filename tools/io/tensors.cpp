#include "tools/io/tensors.h"

#include "compiler/base/parallel.h"
#include "compiler/number_formats.h"

namespace tilewright {
namespace {

/// The values as elements in memory.
std::vector<char> stored(const std::vector<float> &values, ElementType element) {
  const std::size_t size = elementBytes(element);
  std::vector<char> bytes(values.size() * size);
  parallelPieces(values.size(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      storeElement(element, values[i], &bytes[i * size]);
  });
  return bytes;
}

std::vector<float> loaded(const std::vector<char> &bytes, ElementType element) {
  const std::size_t size = elementBytes(element);
  std::vector<float> values(bytes.size() / size);
  parallelPieces(values.size(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      values[i] = static_cast<float>(loadElement(element, &bytes[i * size]));
  });
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
  return uploadBytes(device, element, shape, stored(values, element).data());
}

StatusOr<std::vector<float>> download(Device &device, const TensorRef &tensor) {
  const std::size_t elements = static_cast<std::size_t>(tensor.elements());
  if (tensor.element == ElementType::f32) {
    std::vector<float> values(elements);
    TW_RETURN_IF_ERROR(device.copyToHost(values.data(), tensor.data, elements * sizeof(float), nullptr));
    return values;
  }
  std::vector<char> bytes(elements * elementBytes(tensor.element));
  TW_RETURN_IF_ERROR(device.copyToHost(bytes.data(), tensor.data, bytes.size(), nullptr));
  return loaded(bytes, tensor.element);
}

std::vector<float> rounded(std::vector<float> values, ElementType element) {
  parallelPieces(values.size(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      char bytes[8];
      storeElement(element, values[i], bytes);
      values[i] = static_cast<float>(loadElement(element, bytes));
    }
  });
  return values;
}

} // namespace tilewright
