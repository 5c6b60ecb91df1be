#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/device.h"

namespace tilewright {

constexpr int64_t kPieceBytes = 256; ///< what pieces of a `Carver` begin at multiples of

/// Hands out 256-byte aligned pieces of memory; counts only, when there is none.
class Carver {
public:
  explicit Carver(void *base) : base_(reinterpret_cast<uintptr_t>(base)) {}

  TensorRef vector(ElementType element, int64_t size) {
    return TensorRef::vector(take(size * elementBytes(element)), element, size);
  }
  TensorRef matrix(ElementType element, int64_t rows, int64_t columns, int64_t rowStride) {
    TensorRef result = TensorRef::matrix(nullptr, element, rows, columns);
    result.rowStride = rowStride;
    result.data = take(rows * rowStride * elementBytes(element));
    return result;
  }
  int64_t bytes() const { return used_; }
  /// Leaves out what lies before this many bytes.
  void skipTo(int64_t bytes) { used_ = std::max(used_, bytes); }

private:
  void *take(int64_t bytes) {
    void *result = reinterpret_cast<void *>(base_ + used_);
    used_ = (used_ + bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes;
    return result;
  }

  uintptr_t base_;
  int64_t used_ = 0;
};

/// Sets every byte of a dense vector.
inline Status fill(Device &device, const TensorRef &vector, int byte, Stream stream) {
  return device.fill(vector.data, byte, vector.sizes[0] * elementBytes(vector.element), stream);
}

} // namespace tilewright
