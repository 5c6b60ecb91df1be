#pragma once

#include <cstring>
#include <vector>

#include "compiler/number_formats.h"
#include "runtime/device.h"

namespace tilewright::test {

/// A tensor in the host's memory, with memory around it and between its rows that nobody may write.
class GuardedTensor {
public:
  /// `gap`: elements between two rows.
  GuardedTensor(ElementType element, int64_t rows, int64_t columns, int64_t gap = 0)
      : element_(element), rows_(rows), columns_(columns), stride_(columns + gap),
        memory_(elementBytes(element) * (2 * kGuard + rows * stride_) + kAlignment, kUntouched) {}
  static GuardedTensor vector(ElementType element, int64_t size) { return {element, 1, size}; }

  TensorRef matrix() const { return {place(0, 0), element_, 2, {rows_, columns_}, stride_}; }
  TensorRef vector() const { return TensorRef::vector(place(0, 0), element_, columns_); }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

  void set(int64_t i, int64_t j, double value) { storeElement(element_, value, place(i, j)); }
  /// 0 outside, as a load gives it.
  double at(int64_t i, int64_t j) const {
    return i < 0 || j < 0 || i >= rows_ || j >= columns_ ? 0 : loadElement(element_, place(i, j));
  }
  bool isIntactAround() const {
    std::vector<uint8_t> copy = memory_;
    for (int64_t i = 0; i < rows_; ++i)
      std::memset(copy.data() + offset(i, 0), kUntouched, columns_ * elementBytes(element_));
    return copy == std::vector<uint8_t>(memory_.size(), kUntouched);
  }

private:
  static constexpr int64_t kGuard = 256; ///< elements ahead and behind
  static constexpr int64_t kAlignment = 64;
  static constexpr uint8_t kUntouched = 0x5a;

  int64_t offset(int64_t i, int64_t j) const {
    const int64_t bytes = elementBytes(element_), begin = reinterpret_cast<intptr_t>(memory_.data());
    const int64_t aligned = (begin + kAlignment - 1) / kAlignment * kAlignment - begin;
    return aligned + (kGuard + i * stride_ + j) * bytes;
  }
  void *place(int64_t i, int64_t j) const { return const_cast<uint8_t *>(memory_.data()) + offset(i, j); }

  ElementType element_;
  int64_t rows_, columns_, stride_;
  std::vector<uint8_t> memory_;
};

} // namespace tilewright::test
