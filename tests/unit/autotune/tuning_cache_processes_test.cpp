// Several processes at one tuning cache, which may die at any moment.

#include <array>
#include <atomic>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "autotune/tuner.h"
#include "autotune/tuning_cache.h"
#include "tests/support/fake_tunable.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tuning_records.h"

namespace tilewright {
namespace {

using namespace std::chrono_literals;
using test::sampleKey;
using test::sampleRecord;
using test::TemporaryFolder;

pid_t startProcess(const std::function<bool()> &work) {
  const pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  return child;
}

bool endedWell(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

const auto acceptAll = [](const TuningRecord &) { return true; };

constexpr int kProcesses = 16, kKeys = 4;
using Counters = std::array<std::atomic<int>, kKeys>;

/// Obtains a record for each bucket, beginning at another one in each process.
bool obtainAll(const std::string &dir, Counters &tuned, int process) {
  TuningCache cache(dir);
  bool good = true;
  for (int i = 0; i < kKeys; ++i) {
    const int n = (process + i) % kKeys;
    test::FakeDevice device;
    test::FakeTunable tunable(device);
    tunable.rows = int64_t(1000) << n;
    tunable.whileRunning = [] { std::this_thread::sleep_for(100us); };
    const auto record = cache.obtain(tunable.key(), 0, acceptAll, [&]() -> StatusOr<TuningRecord> {
      ++tuned[n];
      TW_ASSIGN_OR_RETURN(TuningOutcome outcome, tune(tunable, {}));
      return outcome.record;
    });
    good = good && record.ok() && *record &&
           (*record)->winners[0].configuration.str() == "a=64 b=3 chunk=400" &&
           (*record)->key.problem.integer("rows") == sizeBucket(tunable.rows);
  }
  return good;
}

TEST(TuningCacheProcesses, SixteenProcessesOnAColdCacheTuneEachKeyOnce) {
  TemporaryFolder folder;
  void *memory = mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Counters &tuned = *new (memory) Counters{};
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process)
    children.push_back(startProcess([&] { return obtainAll(folder.path(), tuned, process); }));
  for (pid_t child : children)
    EXPECT_TRUE(endedWell(child));
  for (std::atomic<int> &count : tuned)
    EXPECT_EQ(count, 1);
  EXPECT_EQ(TuningCache(folder.path()).records().size(), std::size_t(kKeys));
  for (const auto &file : std::filesystem::directory_iterator(folder.path()))
    EXPECT_EQ(file.path().filename(), "tuning-v3.json") << "locks and temporary files are gone";
  munmap(memory, sizeof(Counters));
}

TEST(TuningCacheProcesses, NoRecordIsLostWhenManyWrite) {
  TemporaryFolder folder;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process)
    children.push_back(startProcess([&] {
      TuningCache cache(folder.path());
      for (int i = 0; i < 4; ++i)
        cache.store(sampleRecord(std::to_string(process) + "/" + std::to_string(i)));
      return true;
    }));
  for (pid_t child : children)
    EXPECT_TRUE(endedWell(child));
  EXPECT_EQ(TuningCache(folder.path()).records().size(), std::size_t(kProcesses * 4));
}

TEST(TuningCacheProcesses, AKillAtAnyMomentLosesNoRecordOfOthers) {
  TemporaryFolder folder;
  TuningCache(folder.path()).store(sampleRecord("kept"));
  for (int round = 0; round < 20; ++round) {
    const pid_t writer = startProcess([&] {
      TuningCache cache(folder.path());
      for (int i = 0;; ++i)
        cache.store(sampleRecord(std::to_string(round) + "/" + std::to_string(i % 50)));
      return true;
    });
    std::this_thread::sleep_for(std::chrono::microseconds(2000 + 700 * round));
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
    testing::internal::CaptureStderr();
    TuningCache cache(folder.path());
    EXPECT_NE(cache.find(sampleKey("kept")), nullptr);
    cache.store(sampleRecord("after"));
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  }
}

TEST(TuningCacheProcesses, AWaiterTakesOverFromAProcessThatDied) {
  TemporaryFolder folder;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t holder = startProcess([&] {
    TuningCache cache(folder.path());
    return cache
        .obtain(sampleKey("f32"), 0, acceptAll,
                [&]() -> StatusOr<TuningRecord> {
                  (void)!write(ready[1], "x", 1);
                  for (;;)
                    pause();
                })
        .ok();
  });
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  std::thread killer([&] {
    std::this_thread::sleep_for(50ms);
    kill(holder, SIGKILL);
  });
  TuningCache cache(folder.path());
  const auto record = cache.obtain(sampleKey("f32"), 0, acceptAll,
                                   [] { return StatusOr<TuningRecord>(sampleRecord("f32")); });
  EXPECT_TRUE(record.ok() && *record);
  killer.join();
  EXPECT_FALSE(endedWell(holder));
}

} // namespace
} // namespace tilewright
