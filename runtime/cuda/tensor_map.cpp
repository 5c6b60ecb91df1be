#include "runtime/cuda/tensor_map.h"

#include <algorithm>
#include <climits>

namespace tilewright::cuda {
namespace {

constexpr int kAlignment = 16;    ///< bytes; of addresses and row strides
constexpr int kSwizzleSpan = 128; ///< bytes of a box's row
constexpr int kMaxBoxRows = 256;
constexpr std::size_t kSlots = 64;

CUtensorMapDataType dataTypeOf(ElementType element, bool toTf32) {
  switch (element) {
  case ElementType::f32:
    return toTf32 ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  case ElementType::bf16:
    return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  case ElementType::f16:
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  case ElementType::i32:
    return CU_TENSOR_MAP_DATA_TYPE_INT32;
  case ElementType::i64:
    return CU_TENSOR_MAP_DATA_TYPE_INT64;
  }
  return CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

int64_t bytesOf(ElementType element) { return static_cast<int64_t>(elementBytes(element)); }

} // namespace

Status checkTensorMap(const Artifact &artifact, const TensorMap &map) {
  const auto wrong = [&](const std::string &what) {
    return internalError("kernel '" + artifact.kernel + "' has a tensor map " + what);
  };
  if (map.parameter < 0 || map.parameter >= static_cast<int>(artifact.parameters.size()))
    return wrong("of no parameter");
  const Parameter &parameter = artifact.parameters[map.parameter];
  if (parameter.kind != Parameter::Kind::view || parameter.rank != 2)
    return wrong("of '" + parameter.name + "', which is no matrix");
  if (map.boxRows < 1 || map.boxRows > kMaxBoxRows ||
      map.boxColumns * bytesOf(parameter.element) != kSwizzleSpan)
    return wrong("of '" + parameter.name + "' with boxes of " + std::to_string(map.boxRows) + "x" +
                 std::to_string(map.boxColumns) + " elements, where 1 to " + std::to_string(kMaxBoxRows) +
                 " rows of " + std::to_string(kSwizzleSpan) + " bytes can be");
  return {};
}

TensorMapCache::TensorMapCache(const Artifact &artifact, const TensorMap &map)
    : map_(map), element_(artifact.parameters[map.parameter].element), kernel_(artifact.kernel),
      parameter_(artifact.parameters[map.parameter].name), slots_(kSlots) {}

Status TensorMapCache::refuse(const std::string &expected, const std::string &found) const {
  return userError("kernel '" + kernel_ + "', parameter '" + parameter_ + "': expected " + expected +
                   ", as code compiled for aligned matrices needs, found " + found);
}

Status TensorMapCache::check(const TensorRef &tensor) const {
  const int64_t strideBytes = tensor.rowStride * bytesOf(element_);
  if (const auto beyond = reinterpret_cast<uintptr_t>(tensor.data) % kAlignment)
    return refuse("memory aligned to 16 bytes", "a pointer " + std::to_string(beyond) + " bytes beyond");
  if (tensor.sizes[0] > 1 && strideBytes % kAlignment)
    return refuse("rows a multiple of 16 bytes apart", std::to_string(strideBytes) + " bytes");
  // Coordinates in a box's address are signed, of 32 bits.
  if (tensor.sizes[0] > INT_MAX || tensor.sizes[1] > INT_MAX)
    return refuse("sizes below 2^31",
                  std::to_string(tensor.sizes[0]) + "x" + std::to_string(tensor.sizes[1]));
  if (tensor.sizes[0] > 1 && strideBytes >= int64_t(1) << 40)
    return refuse("rows less than 2^40 bytes apart", std::to_string(strideBytes) + " bytes");
  return {};
}

Status TensorMapCache::encode(const Driver &driver, const Place &place, CUtensorMap &descriptor) const {
  const int64_t widest = std::max(place.rowStride, place.columns) * bytesOf(element_);
  const uint64_t sizes[2] = {static_cast<uint64_t>(place.columns), static_cast<uint64_t>(place.rows)};
  // Of one row the stride means nothing, and may be anything in the argument.
  const uint64_t strides[1] = {static_cast<uint64_t>((widest + kAlignment - 1) / kAlignment * kAlignment)};
  const uint32_t box[2] = {static_cast<uint32_t>(map_.boxColumns), static_cast<uint32_t>(map_.boxRows)};
  const uint32_t everyElement[2] = {1, 1};
  return TW_CUDA(driver, cuTensorMapEncodeTiled, &descriptor, dataTypeOf(element_, map_.roundsToTf32), 2,
                 const_cast<void *>(place.data), sizes, strides, box, everyElement,
                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

std::size_t TensorMapCache::slotOf(const Place &place) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15; // 2^64 divided by the golden ratio: spreads neighbours
  uint64_t mixed = reinterpret_cast<uintptr_t>(place.data);
  for (int64_t number : {place.rows, place.columns, place.rowStride})
    mixed = (mixed ^ static_cast<uint64_t>(number)) * kGolden;
  return mixed >> 58; // the upper bits depend on all others
}

Status TensorMapCache::describe(const Driver &driver, const TensorRef &tensor, CUtensorMap &descriptor) {
  Place place{tensor.data, tensor.sizes[0], tensor.sizes[1], tensor.sizes[0] > 1 ? tensor.rowStride : 0};
  if (tensor.elements() == 0) {
    // TMA knows no empty tensor. A product over nothing reads nothing, so any place will do.
    place = {reinterpret_cast<const void *>(uintptr_t(kAlignment)), 1, 1, 0};
  } else {
    TW_RETURN_IF_ERROR(check(tensor));
  }
  static_assert(kSlots == 1 << 6);
  std::lock_guard<std::mutex> guard(mutex_);
  Slot &slot = slots_[slotOf(place)];
  if (!(slot.place == place)) {
    slot.place = {};
    TW_RETURN_IF_ERROR(encode(driver, place, slot.descriptor));
    slot.place = place;
  }
  descriptor = slot.descriptor;
  return {};
}

} // namespace tilewright::cuda
