#pragma once

#include <cstddef>

#include "compiler/base/status.h"

namespace tilewright {

/// Addresses without memory behind them, for tensors that nobody reads or writes.
class AddressRange {
public:
  static StatusOr<AddressRange> reserve(std::size_t bytes);
  AddressRange(AddressRange &&other) noexcept;
  AddressRange &operator=(AddressRange &&) = delete;
  ~AddressRange();

  /// The next `bytes` of them, from a multiple of 256 bytes on. There are as many as were reserved, and the
  /// caller adds 256 for each piece.
  void *take(std::size_t bytes);

private:
  AddressRange(void *begin, std::size_t bytes) : begin_(static_cast<char *>(begin)), bytes_(bytes) {}

  char *begin_ = nullptr;
  std::size_t bytes_ = 0, taken_ = 0;
};

} // namespace tilewright
