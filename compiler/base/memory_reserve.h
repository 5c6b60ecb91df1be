#pragma once

#include <cstddef>

namespace tilewright {

/// While one lives, what malloc refuses to this thread comes from a reserve. It is for code that cannot be
/// told that there is no memory: LLVM ends the process then, and so does the destructor of a JSON value. In
/// programs whose malloc is not wrapped (memory_reserve_malloc.cpp) it does nothing.
class UsesReserve {
public:
  UsesReserve();
  ~UsesReserve();
  UsesReserve(const UsesReserve &) = delete;
  UsesReserve &operator=(const UsesReserve &) = delete;
};

namespace reserve {

/// Address space, which costs no memory until it is used. Throws std::bad_alloc where there is not even
/// that.
constexpr std::size_t kBytes = std::size_t(64) << 20;

/// Null where this thread does not use the reserve, or it is spent.
void *allocate(std::size_t bytes, std::size_t alignment);
bool owns(const void *memory);
std::size_t sizeOf(const void *memory);
void free(void *memory);

/// Of the wrapped functions.
extern bool isWrapped;

} // namespace reserve
} // namespace tilewright
