#pragma once

#include <cstdint>

namespace tilewright {

/// Calls of `operator new` so far, in all threads of the process. A program that links this counts what code
/// asks of the heap by the difference of two calls.
int64_t allocationCount();

} // namespace tilewright
