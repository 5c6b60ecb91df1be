// Several processes at one cache: they share the work, and they may die at any moment.

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/artifact_cache.h"
#include "runtime/runtime.h"
#include "tests/support/artifacts.h"
#include "tests/support/fake_device.h"
#include "tests/support/temporary_folder.h"

namespace tilewright {
namespace {

using namespace std::chrono_literals;
using test::sampleArtifact;
using test::sampleKey;
using test::TemporaryFolder;

pid_t startProcess(const std::function<bool()> &work) {
  pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  return child;
}

bool endedWell(pid_t child) {
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Environment environmentWith(const std::string &cacheDir) {
  Environment environment;
  environment.cacheDir = cacheDir;
  return environment;
}

constexpr int kKeys = 6;
using Counters = std::array<std::atomic<int>, kKeys>;

/// Counters that forked processes share.
Counters *sharedCounters() {
  void *memory = mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (memory) Counters{};
}

bool askForAllKernels(Runtime &runtime, Counters &compiled, int start) {
  bool good = true;
  for (int i = 0; i < kKeys; ++i) {
    const int n = (start + i) % kKeys;
    const std::string name = "kernel" + std::to_string(n);
    KernelSource source{[] { return StatusOr<std::string>("fingerprint"); },
                        [&]() -> StatusOr<Artifact> {
                          ++compiled[n];
                          std::this_thread::sleep_for(30ms);
                          return sampleArtifact(name);
                        }};
    auto kernel = runtime.kernel({name, "spec", "options"}, source);
    good = good && kernel.ok() && test::sameCode((*kernel)->artifact(), sampleArtifact(name));
  }
  return good;
}

TEST(ArtifactCacheProcesses, EightTimesFourThreadsCompileEachKernelOnce) {
  TemporaryFolder folder;
  Counters *compiled = sharedCounters();
  std::vector<pid_t> children;
  for (int process = 0; process < 8; ++process)
    children.push_back(startProcess([&] {
      Runtime runtime(std::make_unique<test::FakeDevice>(), environmentWith(folder.path()));
      std::atomic<int> good{0};
      std::vector<std::thread> threads;
      for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] { good += askForAllKernels(runtime, *compiled, process + t); });
      for (std::thread &thread : threads)
        thread.join();
      return good == 4;
    }));
  for (pid_t child : children)
    EXPECT_TRUE(endedWell(child));
  for (std::atomic<int> &count : *compiled)
    EXPECT_EQ(count, 1);
  EXPECT_EQ((*ArtifactCache::open(folder.path()))->entries()->size(), std::size_t(kKeys));
  munmap(compiled, sizeof *compiled);
}

TEST(ArtifactCacheProcesses, AWaiterTakesOverFromAProcessThatDied) {
  TemporaryFolder folder;
  auto cache = *ArtifactCache::open(folder.path());
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  auto use = [](const Artifact &) { return Status(); };
  pid_t holder = startProcess([&] {
    auto compileForever = [&]() -> StatusOr<Artifact> {
      (void)!write(ready[1], "x", 1);
      for (;;)
        pause();
    };
    return cache->obtain(sampleKey(), compileForever, use).ok();
  });
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  std::thread killer([&] {
    std::this_thread::sleep_for(50ms);
    kill(holder, SIGKILL);
  });
  const auto begin = std::chrono::steady_clock::now();
  auto fromDisk = cache->obtain(
      sampleKey(), [] { return StatusOr<Artifact>(sampleArtifact()); }, use);
  EXPECT_TRUE(fromDisk.ok() && !*fromDisk);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  killer.join();
  EXPECT_FALSE(endedWell(holder));
}

/// Writes one entry after the other until it is killed; says when it begins the first or the second.
bool writeForever(const std::string &dir, int round, int begun) {
  auto cache = *ArtifactCache::open(dir);
  for (int n = 0;; ++n) {
    if (n == round % 2) (void)!write(begun, "x", 1);
    const std::string name = "k" + std::to_string(round) + "_" + std::to_string(n);
    (void)cache->obtain(
        sampleKey(name), [&] { return StatusOr<Artifact>(sampleArtifact(name)); },
        [](const Artifact &) { return Status(); });
  }
}

TEST(ArtifactCacheProcesses, AKillAtAnyMomentLeavesAUsableCache) {
  TemporaryFolder folder;
  auto cache = *ArtifactCache::open(folder.path());
  std::mt19937 random(1);
  std::size_t written = 0;
  for (int round = 0; round < 100; ++round) {
    int begun[2];
    ASSERT_EQ(pipe(begun), 0);
    pid_t writer = startProcess([&] { return writeForever(folder.path(), round, begun[1]); });
    char byte;
    ASSERT_EQ(read(begun[0], &byte, 1), 1);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    kill(writer, SIGKILL);
    ASSERT_FALSE(endedWell(writer));
    close(begun[0]);
    close(begun[1]);
    auto entries = cache->entries();
    ASSERT_TRUE(entries.ok());
    for (const CacheEntry &entry : *entries)
      EXPECT_EQ(entry.problem, "");
    written = entries->size();
  }
  EXPECT_GT(written, 0u);
  // The next writer finds the cache usable and removes what the dead ones left.
  auto fromDisk = cache->obtain(
      sampleKey("last"), [] { return StatusOr<Artifact>(sampleArtifact("last")); },
      [](const Artifact &) { return Status(); });
  EXPECT_TRUE(fromDisk.ok());
  std::size_t names = 0;
  for ([[maybe_unused]] const auto &item : std::filesystem::directory_iterator(folder / "kernels"))
    ++names;
  EXPECT_EQ(names, written + 1);
}

} // namespace
} // namespace tilewright
