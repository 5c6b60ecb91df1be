#pragma once

#include <cstdint>

namespace tilewright {

/// The most rows, the most classes and the largest hidden size of a problem. Kernels number rows and columns
/// with 32 bits, and the last block of a matrix numbers some beyond its end.
constexpr int64_t kLargestSize = (int64_t(1) << 31) - (int64_t(1) << 16);

} // namespace tilewright
