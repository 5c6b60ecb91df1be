#include "runtime/cpu/aligned_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <thread>

namespace {
thread_local bool newFails = false;
} // namespace

void *operator new(std::size_t bytes) {
  void *memory = newFails ? nullptr : std::malloc(bytes ? bytes : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }

namespace tilewright {
namespace {

/// A thread keeps the block for its next Scratch; to note that it does takes memory, which there may not be.
TEST(Scratch, ABlockThatCannotBeKeptIsFreed) {
  std::thread([] { // a thread that has kept none yet
    {
      Scratch scratch(64);
      EXPECT_NE(scratch.data(), nullptr);
      newFails = true;
    }
    newFails = false;
    const Scratch next(64);
    EXPECT_NE(next.data(), nullptr);
  })
      .join();
}

} // namespace
} // namespace tilewright
