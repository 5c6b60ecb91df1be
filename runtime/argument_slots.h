#pragma once

#include <cstdint>
#include <cstring>

#include "runtime/device.h"

namespace tilewright {

/// 8-byte slots that the parameters of one kernel may take. GPUs allow 4 KiB of parameters; the CPU has the
/// same limit, so that a launch can keep its slots on the stack.
constexpr int kMaxSlots = 512;

/// Slots that a kernel's declared parameters take.
inline int slotsOf(const Artifact &artifact) {
  int slots = 0;
  for (const Parameter &parameter : artifact.parameters)
    slots += parameter.kind != Parameter::Kind::view ? 1 : parameter.rank == 1 ? 2 : 4;
  return slots;
}

/// A launch's arguments as compiled code reads them. View of rank 1: pointer, size; of rank 2: pointer, rows,
/// columns, row stride; index: its value; float: its bits, in the lower half. The caller checks that no more
/// than `kMaxSlots` are appended.
class ArgumentSlots {
public:
  // The values are left uninitialised: clearing 4 KiB would cost more than the rest.
  ArgumentSlots() {}

  void append(int64_t value) { values_[count_++] = value; }
  void append(const KernelArgument &argument) {
    if (auto *tensor = std::get_if<TensorRef>(&argument)) {
      append(reinterpret_cast<intptr_t>(tensor->data));
      for (int dim = 0; dim < tensor->rank; ++dim)
        append(tensor->sizes[dim]);
      if (tensor->rank == 2) append(tensor->rowStride);
    } else if (auto *value = std::get_if<int64_t>(&argument)) {
      append(*value);
    } else {
      uint32_t bits = 0;
      std::memcpy(&bits, &std::get<float>(argument), sizeof bits);
      append(int64_t(bits));
    }
  }
  const int64_t *data() const { return values_; }
  int64_t *data() { return values_; }
  int count() const { return count_; }

private:
  int count_ = 0;
  int64_t values_[kMaxSlots];
};

} // namespace tilewright
