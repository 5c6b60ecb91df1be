#include "tools/bench/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> count{0};

void *counted(void *memory) {
  count.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void *allocate(std::size_t bytes) { return counted(std::malloc(bytes ? bytes : 1)); }

void *allocate(std::size_t bytes, std::align_val_t wanted) {
  const std::size_t alignment = static_cast<std::size_t>(wanted);
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  return counted(std::aligned_alloc(alignment, rounded ? rounded : alignment));
}

void *orThrow(void *memory) {
  if (!memory) throw std::bad_alloc(); // as the standard demands
  return memory;
}

} // namespace

// The forms for arrays call these, as the standard says. Those that do not throw would, too; but a sanitizer
// has its own, whose memory `free` may not take.
void *operator new(std::size_t bytes) { return orThrow(allocate(bytes)); }
void *operator new(std::size_t bytes, std::align_val_t alignment) {
  return orThrow(allocate(bytes, alignment));
}
void *operator new(std::size_t bytes, const std::nothrow_t &) noexcept { return allocate(bytes); }
void *operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  return allocate(bytes, alignment);
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace tilewright {

int64_t allocationCount() { return count; }

} // namespace tilewright
