#pragma once

#include <cstdint>

#include "compiler/artifact.h"
#include "compiler/base/status.h"
#include "runtime/device.h"

namespace tilewright {

/// Addresses from `begin` to before `end`.
struct MemorySpan {
  uintptr_t begin = 0, end = 0;
  bool meets(const MemorySpan &other) const { return begin < other.end && other.begin < end; }
};

/// From a tensor's first element to behind its last one.
MemorySpan spanOf(const TensorRef &tensor);

/// Whether two tensors have an element's memory in common. Columns side by side of one matrix have not;
/// matrices whose rows lie differently far apart are taken for overlapping wherever their spans meet.
bool overlap(const TensorRef &a, const TensorRef &b);

/// `Device::checkAddress` of each tensor among a kernel's arguments; the error names the parameter.
Status checkAddresses(const Device &device, const Artifact &artifact, ArgumentSpan arguments, Stream stream);

/// A user error where a tensor that the kernel writes overlaps another argument. Two that begin at the same
/// address are taken: that is how a kernel works in place.
Status checkOverlaps(const Artifact &artifact, ArgumentSpan arguments);

} // namespace tilewright
