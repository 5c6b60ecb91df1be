#include "tests/support/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> count{0};

void *counted(std::size_t bytes, std::size_t alignment) {
  ++count;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (void *memory = std::aligned_alloc(alignment, rounded ? rounded : alignment)) return memory;
  std::abort(); // a test that runs out of memory has nothing to tell
}

constexpr std::size_t kUsual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

} // namespace

// The other forms of new and delete call these, as the standard says.
void *operator new(std::size_t bytes) { return counted(bytes, kUsual); }
void *operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace tilewright::test {

int64_t allocationCount() { return count; }

} // namespace tilewright::test
