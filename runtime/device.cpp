#include "runtime/device.h"

#include <algorithm>
#include <limits>

namespace tilewright {
namespace {

std::string describe(const TensorRef &tensor) {
  std::string text = elementName(tensor.element);
  for (int dim = 0; dim < tensor.rank && dim < 2; ++dim)
    text += (dim ? "x" : " tensor of ") + std::to_string(tensor.sizes[dim]);
  return text;
}

Status mismatch(const Artifact &artifact, const Parameter &parameter, const std::string &expected,
                const std::string &found) {
  return userError("kernel '" + artifact.kernel + "', parameter '" + parameter.name + "': expected " +
                   expected + ", found " + found);
}

std::string kindOf(const KernelArgument &argument) {
  if (std::holds_alternative<TensorRef>(argument)) return "a tensor";
  return std::holds_alternative<int64_t>(argument) ? "an integer" : "a float";
}

/// Whether the last element's byte offset fits in 63 bits.
bool isAddressable(const TensorRef &tensor) {
  const int64_t rows = tensor.rank == 2 ? tensor.sizes[0] : 1;
  const int64_t stride = tensor.rank == 2 ? tensor.rowStride : tensor.sizes[0];
  int64_t elements = 0, bytes = 0;
  return !__builtin_mul_overflow(rows, std::max<int64_t>(stride, 1), &elements) &&
         !__builtin_mul_overflow(elements, static_cast<int64_t>(elementBytes(tensor.element)), &bytes);
}

Status checkTensor(const Artifact &artifact, const Parameter &parameter, const TensorRef &tensor) {
  if (tensor.rank != parameter.rank)
    return mismatch(artifact, parameter, "rank " + std::to_string(parameter.rank),
                    "rank " + std::to_string(tensor.rank));
  if (tensor.element != parameter.element)
    return mismatch(artifact, parameter, elementName(parameter.element), elementName(tensor.element));
  for (int dim = 0; dim < tensor.rank; ++dim)
    if (tensor.sizes[dim] < 0) return mismatch(artifact, parameter, "sizes of 0 or more", describe(tensor));
  if (tensor.rank == 2 && tensor.sizes[0] > 1 && tensor.rowStride < tensor.sizes[1])
    return mismatch(artifact, parameter,
                    "rows at least " + std::to_string(tensor.sizes[1]) + " elements apart",
                    "a row stride of " + std::to_string(tensor.rowStride));
  // Kernels count a row's columns in 32 bits, as labels do.
  if (tensor.rank == 2 && tensor.sizes[1] > std::numeric_limits<int32_t>::max())
    return mismatch(artifact, parameter, "fewer than 2^31 columns", describe(tensor));
  if (!isAddressable(tensor)) return mismatch(artifact, parameter, "less than 2^63 bytes", describe(tensor));
  if (!tensor.data && tensor.elements() > 0)
    return mismatch(artifact, parameter, "memory for a " + describe(tensor), "a null pointer");
  // A GPU answers a misaligned access by ending every kernel of the process.
  if (const std::size_t bytes = elementBytes(tensor.element);
      reinterpret_cast<uintptr_t>(tensor.data) % bytes)
    return mismatch(artifact, parameter, "memory aligned to " + std::to_string(bytes) + " bytes",
                    "a pointer that is not");
  return {};
}

Status checkArgument(const Artifact &artifact, const Parameter &parameter, const KernelArgument &argument) {
  switch (parameter.kind) {
  case Parameter::Kind::view:
    if (auto *tensor = std::get_if<TensorRef>(&argument)) return checkTensor(artifact, parameter, *tensor);
    return mismatch(artifact, parameter, "a tensor", kindOf(argument));
  case Parameter::Kind::index:
    if (std::holds_alternative<int64_t>(argument)) return {};
    return mismatch(artifact, parameter, "an integer", kindOf(argument));
  case Parameter::Kind::float32:
    if (std::holds_alternative<float>(argument)) return {};
    return mismatch(artifact, parameter, "a float", kindOf(argument));
  }
  return internalError("parameter '" + parameter.name + "' is of no known kind");
}

/// How far a grid axis reaches. The axis comes from a compiled kernel, so it is checked as our own mistake.
StatusOr<int64_t> extentOf(const Artifact &artifact, const GridAxis &axis, ArgumentSpan arguments) {
  if (axis.parameter < 0 || axis.parameter >= static_cast<int>(arguments.size) || axis.block < 1)
    return internalError("kernel '" + artifact.kernel + "' has a grid axis that fits no parameter");
  const Parameter &parameter = artifact.parameters[axis.parameter];
  const KernelArgument &argument = arguments[axis.parameter];
  if (auto *tensor = std::get_if<TensorRef>(&argument)) {
    if (axis.dim < 0 || axis.dim >= tensor->rank)
      return internalError("kernel '" + artifact.kernel + "' has a grid axis beyond its parameter's rank");
    return tensor->sizes[axis.dim];
  }
  auto *value = std::get_if<int64_t>(&argument);
  if (!value) return internalError("kernel '" + artifact.kernel + "' has a grid axis over a float");
  if (*value < 0) return mismatch(artifact, parameter, "0 or more", std::to_string(*value));
  return *value;
}

} // namespace

TensorRef TensorRef::vector(void *data, ElementType element, int64_t size) {
  return {data, element, 1, {size, 0}, 0};
}

TensorRef TensorRef::matrix(void *data, ElementType element, int64_t rows, int64_t columns) {
  return {data, element, 2, {rows, columns}, columns};
}

TensorRef TensorRef::rows(int64_t first, int64_t count) const {
  TensorRef part = *this;
  const int64_t elements = first * (rank == 1 ? 1 : rowStride);
  if (data) part.data = static_cast<char *>(data) + elements * static_cast<int64_t>(elementBytes(element));
  part.sizes[0] = count;
  return part;
}

TensorRef TensorRef::columns(int64_t first, int64_t count) const {
  TensorRef part = *this;
  if (data) part.data = static_cast<char *>(data) + first * static_cast<int64_t>(elementBytes(element));
  part.sizes[1] = count;
  return part;
}

Status Device::checkAddress(const void *, Stream) const { return {}; }
Status Device::checkVisible(const void *) const { return {}; }

Status Device::assemble(Artifact &) { return {}; }

StatusOr<Grid> gridFor(const Artifact &artifact, ArgumentSpan arguments) {
  if (arguments.size != artifact.parameters.size())
    return userError("kernel '" + artifact.kernel + "' takes " + std::to_string(artifact.parameters.size()) +
                     " arguments, found " + std::to_string(arguments.size));
  for (std::size_t i = 0; i < arguments.size; ++i)
    TW_RETURN_IF_ERROR(checkArgument(artifact, artifact.parameters[i], arguments[i]));
  if (artifact.grid.size() > 3)
    return internalError("kernel '" + artifact.kernel + "' has more than 3 grid axes");

  Grid grid = {1, 1, 1};
  int64_t programs = 1;
  for (std::size_t axis = 0; axis < artifact.grid.size(); ++axis) {
    TW_ASSIGN_OR_RETURN(int64_t extent, extentOf(artifact, artifact.grid[axis], arguments));
    const int64_t block = artifact.grid[axis].block;
    grid[axis] = extent / block + (extent % block != 0);
    if (__builtin_mul_overflow(programs, grid[axis], &programs))
      return userError("kernel '" + artifact.kernel + "' would need 2^63 programs or more for these sizes");
  }
  return grid;
}

} // namespace tilewright
