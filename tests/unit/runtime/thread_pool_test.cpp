#include "runtime/cpu/thread_pool.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tilewright {
namespace {

/// How often each number was worked on.
std::vector<int> timesDone(ThreadPool &pool, int64_t count) {
  std::vector<std::atomic<int>> times(count);
  pool.run(count, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      ++times[n];
  });
  return {times.begin(), times.end()};
}

TEST(ThreadPool, DoesEveryNumberOnce) {
  for (int threads : {1, 2, 3, 8, 33}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t count : {0, 1, 2, 3, 7, 64, 1000})
      EXPECT_EQ(timesDone(pool, count), std::vector<int>(count, 1)) << threads << " threads, " << count;
  }
}

TEST(ThreadPool, PartsAreContiguousAndInsideTheRange) {
  ThreadPool pool(4);
  std::atomic<bool> good{true};
  pool.run(1000, [&](int64_t begin, int64_t end) {
    if (begin < 0 || end > 1000 || begin >= end) good = false;
  });
  EXPECT_TRUE(good);
}

TEST(ThreadPool, NumbersBeyond32Bits) {
  ThreadPool pool(4);
  std::atomic<int64_t> sum{0};
  const int64_t count = (int64_t(1) << 40) + 3;
  pool.run(count, [&](int64_t begin, int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum, count);
}

TEST(ThreadPool, ManyThreadsMayRunAtOnce) {
  ThreadPool pool(4);
  std::atomic<int> bad{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller)
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round)
        if (timesDone(pool, 100) != std::vector<int>(100, 1)) ++bad;
    });
  for (std::thread &caller : callers)
    caller.join();
  EXPECT_EQ(bad, 0);
}

TEST(ThreadPool, WorkMayRunWork) {
  ThreadPool pool(3);
  std::atomic<int> done{0};
  pool.run(10, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      pool.run(10, [&](int64_t innerBegin, int64_t innerEnd) {
        for (int64_t m = innerBegin; m < innerEnd; ++m)
          pool.run(4, [&](int64_t b, int64_t e) { done += static_cast<int>(e - b); });
      });
  });
  EXPECT_EQ(done, 400);
}

TEST(ThreadPool, SlowPartsDoNotHoldUpOthers) {
  ThreadPool pool(2);
  std::atomic<int> done{0};
  pool.run(64, [&](int64_t begin, int64_t end) {
    if (begin == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    done += static_cast<int>(end - begin);
  });
  EXPECT_EQ(done, 64);
}

TEST(ThreadPool, AForkedProcessRunsAloneAndEnds) {
  auto pool = std::make_unique<ThreadPool>(4);
  timesDone(*pool, 100);
  pid_t child = fork();
  if (child == 0) {
    alarm(10);
    bool good = timesDone(*pool, 100) == std::vector<int>(100, 1);
    pool.reset();
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(AvailableCores, FollowsTheAffinityMask) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(availableCores(), CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(availableCores(), 1);
  sched_setaffinity(0, sizeof before, &before);
}

} // namespace
} // namespace tilewright
