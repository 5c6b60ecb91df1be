#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "runtime/cuda/driver.h"
#include "runtime/device.h"

namespace tilewright::cuda {

/// Whether a compiled kernel's map is one that TMA has; an internal error says what is not.
Status checkTensorMap(const Artifact &artifact, const TensorMap &map);

/// The driver's descriptors of one map of a kernel, for the tensors it was launched with. A descriptor costs
/// the driver about as much as a launch does, and a training step comes with the same tensors again and
/// again. Any thread may call it.
class TensorMapCache {
public:
  TensorMapCache(const Artifact &artifact, const TensorMap &map);

  /// Writes the descriptor of `tensor`, which fits the map's parameter, to `descriptor`. A user error names
  /// the parameter when TMA cannot reach the tensor. An empty tensor has a descriptor that may be passed but
  /// not read through.
  Status describe(const Driver &driver, const TensorRef &tensor, CUtensorMap &descriptor);

private:
  /// Where a matrix lies, as far as one map's descriptors differ.
  struct Place {
    const void *data = nullptr;
    int64_t rows = 0, columns = 0, rowStride = 0;

    bool operator==(const Place &other) const {
      return data == other.data && rows == other.rows && columns == other.columns &&
             rowStride == other.rowStride;
    }
  };
  struct Slot {
    CUtensorMap descriptor;
    Place place; ///< no data: empty
  };

  Status check(const TensorRef &tensor) const;
  Status refuse(const std::string &expected, const std::string &found) const;
  Status encode(const Driver &driver, const Place &place, CUtensorMap &descriptor) const;
  static std::size_t slotOf(const Place &place);

  const TensorMap map_;
  const ElementType element_;
  const std::string kernel_, parameter_; ///< names, for messages
  std::mutex mutex_;
  std::vector<Slot> slots_;
};

} // namespace tilewright::cuda
