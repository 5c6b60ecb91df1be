#include "bindings/c/tensors.h"

#include <algorithm>

namespace tilewright::c {
namespace {

/// The address, while a call is prepared, of a tensor without elements that has none.
alignas(256) char nothing[1];

Status misfit(const Argument &argument, const std::string &expected, const std::string &found) {
  return userError(std::string(argument.name) + ": expected " + expected + ", found " + found);
}

std::string describe(DLDataType type) {
  return "code " + std::to_string(type.code) + " of " + std::to_string(type.bits) + " bits, " +
         std::to_string(type.lanes) + " lanes";
}

std::string describe(int type, int index) {
  const std::string number = " " + std::to_string(index);
  if (type == kDLCPU) return "the CPU (DLPack's kDLCPU)";
  return (type == kDLCUDA ? "GPU" : "DLPack's device type " + std::to_string(type) + ", device") + number;
}

Status checkDevice(const Argument &argument, DevicePlace place) {
  const DLDevice device = argument.given->device;
  const int type = static_cast<int>(device.device_type);
  if (place.type == kDLCPU && (type == kDLCPU || type == kDLCUDAHost)) return {};
  if (place.type == kDLCUDA && type == kDLCUDAManaged) return {};
  if (place.type == kDLCUDA && type == kDLCUDA && device.device_id == place.index) return {};
  return misfit(argument, "memory of the runtime's device, " + describe(place.type, place.index),
                describe(type, device.device_id));
}

Status readShape(const Argument &argument) {
  const DLTensor &given = *argument.given;
  TensorRef &tensor = *argument.result;
  tensor.rank = argument.rank;
  if (given.ndim == 0 && argument.rank == 1) {
    tensor.sizes[0] = 1;
    return {};
  }
  if (given.ndim != argument.rank)
    return misfit(argument, std::to_string(argument.rank) + " dimension" + (argument.rank == 1 ? "" : "s"),
                  std::to_string(given.ndim));
  if (!given.shape) return misfit(argument, "a shape", "NULL");
  for (int dim = 0; dim < given.ndim; ++dim) {
    tensor.sizes[dim] = given.shape[dim];
    if (given.shape[dim] < 0) return misfit(argument, "sizes of 0 or more", std::to_string(given.shape[dim]));
  }
  return {};
}

/// Strides of dimensions with one element say nothing.
Status readStrides(const Argument &argument) {
  const DLTensor &given = *argument.given;
  TensorRef &tensor = *argument.result;
  if (tensor.rank == 2) tensor.rowStride = tensor.sizes[1];
  if (!given.strides || given.ndim == 0) return {};
  const int last = given.ndim - 1;
  if (given.shape[last] > 1 && given.strides[last] != 1)
    return misfit(argument, given.ndim == 1 ? "adjacent elements" : "rows whose elements are adjacent",
                  "a stride of " + std::to_string(given.strides[last]) + " elements; copy it first");
  if (tensor.rank == 1 || tensor.sizes[0] <= 1) return {};
  if (given.strides[0] < tensor.sizes[1])
    return misfit(argument, "rows at least " + std::to_string(tensor.sizes[1]) + " elements apart",
                  "a stride of " + std::to_string(given.strides[0]));
  tensor.rowStride = given.strides[0];
  return {};
}

Status checkExtent(const Argument &argument) {
  const TensorRef &tensor = *argument.result;
  const int64_t rows = tensor.rank == 2 ? tensor.sizes[0] : 1;
  const int64_t stride = tensor.rank == 2 ? tensor.rowStride : tensor.sizes[0];
  int64_t elements = 0, bytes = 0;
  if (__builtin_mul_overflow(rows, std::max<int64_t>(stride, 1), &elements) ||
      __builtin_mul_overflow(elements, static_cast<int64_t>(elementBytes(tensor.element)), &bytes))
    return misfit(argument, "less than 2^63 bytes", std::to_string(rows) + " rows");
  return {};
}

Status readAddress(const Argument &argument, Use use) {
  const DLTensor &given = *argument.given;
  TensorRef &tensor = *argument.result;
  if (!given.data) {
    if (tensor.elements() > 0) return misfit(argument, "memory", "a null address");
    tensor.data = use == Use::prepare ? nothing : nullptr;
    return {};
  }
  tensor.data = static_cast<char *>(given.data) + given.byte_offset;
  const std::size_t bytes = elementBytes(tensor.element);
  if (reinterpret_cast<uintptr_t>(tensor.data) % bytes)
    return misfit(argument, "an address that is a multiple of " + std::to_string(bytes) + " bytes",
                  "one that is not (byte_offset is " + std::to_string(given.byte_offset) + ")");
  return {};
}

} // namespace

StatusOr<ElementType> elementTypeOf(DLDataType type) {
  if (type.lanes == 1) {
    if (type.code == kDLFloat && type.bits == 32) return ElementType::f32;
    if (type.code == kDLFloat && type.bits == 16) return ElementType::f16;
    if (type.code == kDLBfloat && type.bits == 16) return ElementType::bf16;
    if (type.code == kDLInt && type.bits == 32) return ElementType::i32;
    if (type.code == kDLInt && type.bits == 64) return ElementType::i64;
  }
  return userError("expected a type of f32, bf16, f16, i32 or i64, found DLPack's " + describe(type));
}

Status readTensor(const Argument &argument, DevicePlace place, Use use) {
  *argument.result = {};
  const StatusOr<ElementType> element = elementTypeOf(argument.given->dtype);
  if (!element.ok()) return userError(std::string(argument.name) + ": " + element.status().message());
  argument.result->element = *element;
  TW_RETURN_IF_ERROR(checkDevice(argument, place));
  TW_RETURN_IF_ERROR(readShape(argument));
  TW_RETURN_IF_ERROR(readStrides(argument));
  TW_RETURN_IF_ERROR(checkExtent(argument));
  return readAddress(argument, use);
}

} // namespace tilewright::c
