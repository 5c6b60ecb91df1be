#include "tools/io/tensors.h"

#include <algorithm>
#include <functional>

#include "compiler/base/parallel.h"
#include "compiler/number_formats.h"

namespace tilewright {
namespace {

constexpr int64_t kElementsAtOnce = 32 << 20; // of a conversion: a small buffer costs no page faults later

/// visit(first element, number of elements, bytes for them), piece by piece, with the same bytes each time.
Status forEachPiece(const TensorRef &tensor,
                    const std::function<Status(int64_t, int64_t, std::vector<char> &)> &visit) {
  std::vector<char> bytes(std::min(tensor.elements(), kElementsAtOnce) * elementBytes(tensor.element));
  for (int64_t first = 0; first < tensor.elements(); first += kElementsAtOnce)
    TW_RETURN_IF_ERROR(visit(first, std::min(kElementsAtOnce, tensor.elements() - first), bytes));
  return {};
}

char *elementOf(const TensorRef &tensor, int64_t index) {
  return static_cast<char *>(tensor.data) + index * static_cast<int64_t>(elementBytes(tensor.element));
}

/// Rounds the values on their way.
Status store(Device &device, const TensorRef &tensor, const float *values) {
  const std::size_t size = elementBytes(tensor.element);
  return forEachPiece(tensor, [&](int64_t first, int64_t count, std::vector<char> &bytes) -> Status {
    parallelPieces(count, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        storeElement(tensor.element, values[first + i], &bytes[i * size]);
    });
    TW_RETURN_IF_ERROR(device.copyToDevice(elementOf(tensor, first), bytes.data(), count * size, nullptr));
    return device.synchronize(nullptr); // the next piece may have the bytes now
  });
}

Status load(Device &device, const TensorRef &tensor, float *values) {
  const std::size_t size = elementBytes(tensor.element);
  return forEachPiece(tensor, [&](int64_t first, int64_t count, std::vector<char> &bytes) -> Status {
    TW_RETURN_IF_ERROR(device.copyToHost(bytes.data(), elementOf(tensor, first), count * size, nullptr));
    parallelPieces(count, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        values[first + i] = static_cast<float>(loadElement(tensor.element, &bytes[i * size]));
    });
    return {};
  });
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
  TW_ASSIGN_OR_RETURN(OwnedTensor tensor, allocateTensor(device, element, shape));
  TW_RETURN_IF_ERROR(store(device, tensor.ref, values.data()));
  return tensor;
}

StatusOr<std::vector<float>> download(Device &device, const TensorRef &tensor) {
  std::vector<float> values(tensor.elements());
  TW_RETURN_IF_ERROR(
      tensor.element == ElementType::f32
          ? device.copyToHost(values.data(), tensor.data, values.size() * sizeof(float), nullptr)
          : load(device, tensor, values.data()));
  return values;
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
