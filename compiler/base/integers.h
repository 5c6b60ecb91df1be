#pragma once

#include <cstdint>

namespace tilewright {

/// a / b, rounded up; a >= 0 and b > 0.
constexpr int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// The least multiple of `multiple` that is not below `a`.
constexpr int64_t roundUp(int64_t a, int64_t multiple) { return ceilDiv(a, multiple) * multiple; }

} // namespace tilewright
