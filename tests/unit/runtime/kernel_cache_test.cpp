#include "runtime/kernel_cache.h"

#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

namespace tilewright {
namespace {

const KernelKey kKey{"softmax", "f32 8x64", "optLevel=2"};

StatusOr<KernelHandle> makeNamed(const std::string &name) {
  Artifact artifact;
  artifact.kernel = name;
  return KernelHandle(std::make_shared<LoadedKernel>(artifact));
}

TEST(KernelKey, FieldsDoNotRunIntoEachOther) {
  EXPECT_NE((KernelKey{"a", "bc", ""}.str()), (KernelKey{"ab", "c", ""}.str()));
  EXPECT_NE((KernelKey{"a", "b", ""}.str()), (KernelKey{"a", "", "b"}.str()));
}

TEST(KernelCache, MakesAKernelOnceHoweverManyThreadsAsk) {
  KernelCache cache;
  std::atomic<int> made{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        const std::string name = "k" + std::to_string((t + round) % 5);
        auto kernel = cache.get({name, "", ""}, [&] {
          ++made;
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          return makeNamed(name);
        });
        if (!kernel.ok() || (*kernel)->artifact().kernel != name) ++wrong;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(made, 5);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cache.hits(), 16 * 20 - 5);
}

TEST(KernelCache, OtherKeysDoNotWait) {
  KernelCache cache;
  auto outer = cache.get(kKey, [&] {
    return cache.get({"other", "", ""}, [] { return makeNamed("other"); });
  });
  ASSERT_TRUE(outer.ok());
  EXPECT_EQ((*outer)->artifact().kernel, "other");
}

TEST(KernelCache, AFailureReachesAllWhoWaitAndIsThenForgotten) {
  KernelCache cache;
  std::atomic<int> made{0}, failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      auto kernel = cache.get(kKey, [&]() -> StatusOr<KernelHandle> {
        ++made;
        // Long enough that all others wait for this one.
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        return compileError("no");
      });
      if (!kernel.ok() && kernel.status().message() == "no") ++failed;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failed, 8);
  EXPECT_EQ(made, 1);
  EXPECT_TRUE(cache.get(kKey, [] { return makeNamed("again"); }).ok());
}

TEST(KernelCache, AnExceptionIsAStatus) {
  KernelCache cache;
  auto kernel = cache.get(kKey, []() -> StatusOr<KernelHandle> { throw std::runtime_error("oh"); });
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.status().kind(), StatusKind::internal);
  EXPECT_TRUE(cache.get(kKey, [] { return makeNamed("again"); }).ok());
}

} // namespace
} // namespace tilewright
