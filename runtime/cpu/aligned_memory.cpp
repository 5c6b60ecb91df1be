#include "runtime/cpu/aligned_memory.h"

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace tilewright {
namespace {

/// One block per nesting level of this thread.
thread_local std::vector<Scratch::Block> stock;

} // namespace

void FreeMemory::operator()(void *memory) const { std::free(memory); }

AlignedMemory allocateAligned(std::size_t bytes) {
  constexpr std::size_t usual = 256, hugePage = std::size_t(2) << 20;
  const std::size_t alignment = bytes >= hugePage ? hugePage : usual;
  if (bytes > SIZE_MAX - alignment) return nullptr;
  // aligned_alloc wants a multiple of the alignment.
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  AlignedMemory memory(std::aligned_alloc(alignment, rounded ? rounded : alignment));
  // A big product walks far more 4 KiB pages than the TLB holds. Where the advice is not taken, nothing is
  // lost.
  if (memory && alignment == hugePage) madvise(memory.get(), rounded, MADV_HUGEPAGE);
  return memory;
}

Scratch::Scratch(std::size_t bytes) {
  if (bytes == 0) return;
  if (!stock.empty()) {
    block_ = std::move(stock.back());
    stock.pop_back();
  }
  if (block_.bytes >= bytes) return;
  block_.memory.reset(); // before the new one is made: both at once may not fit
  block_.memory = allocateAligned(bytes);
  block_.bytes = block_.memory ? bytes : 0;
}

Scratch::~Scratch() {
  if (!block_.memory) return;
  try {
    stock.push_back(std::move(block_));
  } catch (const std::bad_alloc &) {
    // The block is freed with this object, and the next Scratch makes one of its own.
  }
}

} // namespace tilewright
