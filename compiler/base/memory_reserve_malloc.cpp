// In place of malloc and its kin in a library that is linked with --wrap (tools/build/portable.bzl): as they
// are, and from the reserve where they have no memory for somebody who uses it.

#include <cerrno>
#include <cstring>

#include <malloc.h>

#include "compiler/base/memory_reserve.h"

using namespace tilewright;

extern "C" {

void *__real_malloc(std::size_t bytes);
void *__real_calloc(std::size_t count, std::size_t bytes);
void *__real_realloc(void *memory, std::size_t bytes);
void *__real_aligned_alloc(std::size_t alignment, std::size_t bytes);
int __real_posix_memalign(void **memory, std::size_t alignment, std::size_t bytes);
void __real_free(void *memory);

[[maybe_unused]] static const bool kWrapped = reserve::isWrapped = true;

void *__wrap_malloc(std::size_t bytes) {
  void *memory = __real_malloc(bytes);
  return memory ? memory : reserve::allocate(bytes, 1);
}

void *__wrap_calloc(std::size_t count, std::size_t bytes) {
  std::size_t all = 0;
  if (void *memory = __real_calloc(count, bytes)) return memory;
  if (__builtin_mul_overflow(count, bytes, &all)) return nullptr;
  void *memory = reserve::allocate(all, 1);
  return memory ? std::memset(memory, 0, all) : nullptr;
}

void __wrap_free(void *memory) { reserve::owns(memory) ? reserve::free(memory) : __real_free(memory); }

void *__wrap_realloc(void *memory, std::size_t bytes) {
  if (!memory) return __wrap_malloc(bytes);
  const bool isOfReserve = reserve::owns(memory);
  if (!isOfReserve)
    if (void *grown = __real_realloc(memory, bytes)) return grown;
  if (!isOfReserve && bytes == 0) return nullptr; // freed
  void *moved = isOfReserve ? __wrap_malloc(bytes) : reserve::allocate(bytes, 1);
  if (!moved) return nullptr;
  const std::size_t before = isOfReserve ? reserve::sizeOf(memory) : malloc_usable_size(memory);
  std::memcpy(moved, memory, before < bytes ? before : bytes);
  __wrap_free(memory);
  return moved;
}

void *__wrap_aligned_alloc(std::size_t alignment, std::size_t bytes) {
  void *memory = __real_aligned_alloc(alignment, bytes);
  return memory ? memory : reserve::allocate(bytes, alignment);
}

int __wrap_posix_memalign(void **memory, std::size_t alignment, std::size_t bytes) {
  const int failure = __real_posix_memalign(memory, alignment, bytes);
  if (failure != ENOMEM) return failure;
  void *reserved = reserve::allocate(bytes, alignment);
  if (!reserved) return failure;
  *memory = reserved;
  return 0;
}

} // extern "C"
