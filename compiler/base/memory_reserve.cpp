#include "compiler/base/memory_reserve.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <new>

#include <sys/mman.h>

namespace tilewright {
namespace {

thread_local int users = 0; ///< of this thread's objects

/// Stands before what a block's user gets.
struct Header {
  std::size_t bytes;  ///< that were asked for
  uint32_t sizeClass; ///< the block has 2^sizeClass bytes
  uint32_t offset;    ///< of what its user gets, in the block
};
constexpr std::size_t kLeastAlignment = alignof(std::max_align_t);
constexpr uint32_t kLeastClass = 5, kClasses = 40;

/// A block that nobody has.
struct Free {
  Free *next;
};

std::mutex mutex;                  // guards what follows
std::atomic<char *> base{nullptr}; // read without it, too
std::size_t used = 0, blocks = 0;
Free *freed[kClasses] = {}; // by size class

char *mapped() {
  void *memory = mmap(nullptr, reserve::kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char *>(memory);
}

/// Null: the reserve is spent.
char *takeBlock(uint32_t sizeClass) {
  std::lock_guard<std::mutex> guard(mutex);
  const std::size_t bytes = std::size_t(1) << sizeClass;
  if (Free *block = freed[sizeClass]) {
    freed[sizeClass] = block->next;
    ++blocks;
    return reinterpret_cast<char *>(block);
  }
  if (bytes > reserve::kBytes - used) return nullptr;
  used += bytes;
  ++blocks;
  return base + used - bytes;
}

} // namespace

UsesReserve::UsesReserve() {
  if (!reserve::isWrapped) return;
  {
    std::lock_guard<std::mutex> guard(mutex);
    if (!base) base = mapped(); // for good: it is there when nothing else is
  }
  ++users;
}

UsesReserve::~UsesReserve() {
  if (reserve::isWrapped) --users;
}

namespace reserve {

bool isWrapped = false;

void *allocate(std::size_t bytes, std::size_t alignment) {
  if (!users || bytes > kBytes || alignment > kBytes) return nullptr;
  alignment = std::max(alignment, kLeastAlignment);
  const std::size_t needed = sizeof(Header) + bytes + alignment;
  uint32_t sizeClass = kLeastClass;
  while (std::size_t(1) << sizeClass < needed)
    ++sizeClass;
  char *const block = takeBlock(sizeClass);
  if (!block) return nullptr;
  const auto first = reinterpret_cast<uintptr_t>(block) + sizeof(Header);
  const auto offset =
      static_cast<uint32_t>((first + alignment - 1) / alignment * alignment - first + sizeof(Header));
  reinterpret_cast<Header *>(block + offset)[-1] = {bytes, sizeClass, offset};
  return block + offset;
}

bool owns(const void *memory) {
  const char *first = base.load(std::memory_order_acquire), *at = static_cast<const char *>(memory);
  return first && at >= first && at < first + kBytes;
}

std::size_t sizeOf(const void *memory) { return static_cast<const Header *>(memory)[-1].bytes; }

void free(void *memory) {
  const Header &header = static_cast<const Header *>(memory)[-1];
  const uint32_t sizeClass = header.sizeClass;
  auto *block = reinterpret_cast<Free *>(static_cast<char *>(memory) - header.offset);
  std::lock_guard<std::mutex> guard(mutex);
  block->next = freed[sizeClass];
  freed[sizeClass] = block;
  if (--blocks) return;
  used = 0; // nobody has any of it
  std::fill(std::begin(freed), std::end(freed), nullptr);
  madvise(base, kBytes, MADV_DONTNEED);
}

} // namespace reserve
} // namespace tilewright
