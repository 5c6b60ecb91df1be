#include "compiler/base/parallel.h"

#include <cerrno>
#include <dlfcn.h>
#include <gtest/gtest.h>

namespace {

std::atomic<int> threadsLeft{1 << 20};

} // namespace

// Stands in front of the C library's: the system may allow no more threads.
extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *),
                              void *argument) noexcept {
  if (threadsLeft-- <= 0) return EAGAIN;
  static const auto create = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, work, argument);
}

namespace tilewright {
namespace {

TEST(Parallel, DoesAllWorkHoweverManyThreadsThereMayBe) {
  for (int allowed : {0, 1, 2, 100}) {
    threadsLeft = allowed;
    std::vector<std::atomic<int>> times(1000);
    parallelFor(1000, [&](int64_t i) { ++times[i]; });
    for (const auto &count : times)
      EXPECT_EQ(count, 1);
    std::atomic<int> ran{0};
    threadsLeft = allowed;
    std::vector<std::thread> threads = startThreads(3, [&] { ++ran; });
    EXPECT_EQ(threads.size(), std::size_t(std::min(allowed, 3)));
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(ran, std::min(allowed, 3));
  }
}

} // namespace
} // namespace tilewright
