#include "runtime/argument_memory.h"

#include <algorithm>
#include <string>

namespace tilewright {
namespace {

/// 0 of a tensor with one row.
int64_t bytesBetweenRows(const TensorRef &tensor) {
  if (tensor.rank == 1 || tensor.sizes[0] <= 1) return 0;
  return tensor.rowStride * static_cast<int64_t>(elementBytes(tensor.element));
}

int64_t bytesOfRow(const TensorRef &tensor) {
  return tensor.sizes[tensor.rank == 1 ? 0 : 1] * static_cast<int64_t>(elementBytes(tensor.element));
}

std::string nameOf(const Artifact &artifact, std::size_t parameter) {
  return "kernel '" + artifact.kernel + "', parameter '" + artifact.parameters[parameter].name + "'";
}

std::size_t countOf(const Artifact &artifact, ArgumentSpan arguments) {
  return std::min(artifact.parameters.size(), arguments.size); // a launch refuses another number
}

} // namespace

MemorySpan spanOf(const TensorRef &tensor) {
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data);
  if (tensor.elements() == 0) return {begin, begin};
  const int64_t toLastRow = tensor.rank == 1 ? 0 : (tensor.sizes[0] - 1) * bytesBetweenRows(tensor);
  return {begin, begin + static_cast<uintptr_t>(toLastRow + bytesOfRow(tensor))};
}

bool overlap(const TensorRef &a, const TensorRef &b) {
  const MemorySpan ofA = spanOf(a), ofB = spanOf(b);
  if (!ofA.meets(ofB)) return false;
  const int64_t strideA = bytesBetweenRows(a), strideB = bytesBetweenRows(b);
  if (strideA && strideB && strideA != strideB) return true;
  const int64_t stride = std::max(strideA, strideB);
  if (!stride) return true;
  const int64_t distance = static_cast<int64_t>(ofB.begin - ofA.begin) % stride;
  const int64_t column = distance < 0 ? distance + stride : distance; // of b's first element in a row of a
  return column < bytesOfRow(a) || column + bytesOfRow(b) > stride;
}

Status checkAddresses(const Device &device, const Artifact &artifact, ArgumentSpan arguments, Stream stream) {
  for (std::size_t i = 0; i < countOf(artifact, arguments); ++i)
    if (const auto *tensor = std::get_if<TensorRef>(&arguments[i]))
      if (const Status status = device.checkAddress(tensor->data, stream); !status.ok())
        return status.in(nameOf(artifact, i));
  return {};
}

Status checkOverlaps(const Artifact &artifact, ArgumentSpan arguments) {
  const std::size_t count = countOf(artifact, arguments);
  for (std::size_t i = 0; i < count; ++i) {
    const auto *written = std::get_if<TensorRef>(&arguments[i]);
    if (!written || !artifact.parameters[i].written) continue;
    for (std::size_t j = 0; j < count; ++j) {
      const auto *other = std::get_if<TensorRef>(&arguments[j]);
      if (other && other->data != written->data && overlap(*written, *other))
        return userError(nameOf(artifact, i) + " overlaps '" + artifact.parameters[j].name +
                         "'; what a kernel writes lies apart from other tensors, or begins where one does");
    }
  }
  return {};
}

} // namespace tilewright
