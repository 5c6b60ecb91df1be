// A cache of kernels on file systems that refuse, are full, or cannot lock.

#include <atomic>
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/runtime/cached_artifacts.h"

namespace {

// File systems that cannot lock, and that tell an open file another inode number than its name.
std::atomic<int> flockError{0};
std::atomic<bool> inodesDiffer{false};

} // namespace

// These stand in front of the C library's.
extern "C" int flock(int fd, int operation) noexcept {
  if (!flockError) return static_cast<int>(syscall(SYS_flock, fd, operation));
  errno = flockError;
  return -1;
}

extern "C" int fstatat(int folder, const char *name, struct stat *info, int flags) noexcept {
  const int result = static_cast<int>(syscall(SYS_newfstatat, folder, name, info, flags));
  if (result == 0 && inodesDiffer) ++info->st_ino;
  return result;
}

namespace tilewright {
namespace {

using namespace test;
using ::testing::HasSubstr;

TEST(ArtifactCache, FoldersThatOthersMayWriteAreRefused) {
  for (mode_t mode : {0777, 0770, 0702}) {
    TemporaryFolder folder;
    chmod(folder.path().c_str(), mode);
    auto cache = ArtifactCache::open(folder.path());
    ASSERT_FALSE(cache.ok());
    EXPECT_THAT(cache.status().message(), HasSubstr(folder.path()));
    EXPECT_THAT(cache.status().message(), HasSubstr("others may write"));
  }
  TemporaryFolder folder;
  openOrDie(folder.path());
  chmod((folder / "kernels").c_str(), 0777);
  EXPECT_FALSE(ArtifactCache::open(folder.path()).ok());
}

TEST(ArtifactCache, FoldersOfOtherUsersAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  TemporaryFolder folder;
  ASSERT_EQ(chown(folder.path().c_str(), 12345, 12345), 0);
  auto cache = ArtifactCache::open(folder.path());
  ASSERT_FALSE(cache.ok());
  EXPECT_THAT(cache.status().message(), HasSubstr("belongs to user 12345"));
}

TEST(ArtifactCache, PlacesWhereNoFolderCanBeAreErrors) {
  TemporaryFolder folder;
  writeWholeFile(folder / "file", "x");
  for (const std::string &path : {folder / "file", folder / "file/below", std::string("/proc/nothing/here"),
                                  std::string("/dev/null"), folder / std::string(300, 'x')})
    EXPECT_FALSE(ArtifactCache::open(path).ok()) << path;
}

TEST(ArtifactCache, AReadOnlyFolderIsReadAndWritingFailsOnce) {
  TemporaryFolder folder;
  obtain(*openOrDie(folder.path()));
  const std::string path = folder.path();
  // Modes do not stop root, a read-only mount does.
  const bool mounted = mount(path.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) == 0;
  if (!mounted || mount(nullptr, path.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0) {
    if (mounted) umount(path.c_str());
    GTEST_SKIP() << "cannot mount a folder read-only";
  }
  {
    auto cache = openOrDie(path);
    expectHit(obtain(*cache));
    Outcome first = obtain(*cache, "other");
    expectMiss(first, 1);
    EXPECT_THAT(first.log, HasSubstr("Read-only"));
    expectMiss(obtain(*cache, "third"), 0);
  }
  umount(path.c_str());
}

TEST(ArtifactCache, AFileSizeLimitFailsNothing) {
  TemporaryFolder folder;
  auto cache = openOrDie(folder.path());
  obtain(*cache);
  Artifact large = sampleArtifact("large");
  large.binary.assign(1 << 20, 'x');
  rlimit before, small;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  small = before;
  small.rlim_cur = 1 << 19; // a write beyond raises SIGXFSZ, which would end the process
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  auto fromDisk = cache->obtain(
      sampleKey("large"), [&] { return StatusOr<Artifact>(large); },
      [](const Artifact &) { return Status(); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(fromDisk.ok());
  EXPECT_EQ(namesUnder(folder / "kernels").size(), 1u); // nothing half written is left
  expectHit(obtain(*cache));
  expectMiss(obtain(*cache, "other"), 0);
}

TEST(ArtifactCache, AFullFileSystemFailsNothing) {
  TemporaryFolder folder;
  if (mount("none", folder.path().c_str(), "tmpfs", 0, "size=8k,mode=700") != 0)
    GTEST_SKIP() << "cannot mount tmpfs";
  {
    auto cache = openOrDie(folder.path());
    Outcome outcome = obtain(*cache);
    expectMiss(outcome, 1);
    EXPECT_THAT(outcome.log, HasSubstr("No space left"));
    expectMiss(obtain(*cache), 0); // one warning is enough
    EXPECT_TRUE(namesUnder(folder / "kernels").empty());
  }
  umount(folder.path().c_str());
}

TEST(ArtifactCache, ALockThatIsNeverGivenBackOnlyDelays) {
  TemporaryFolder folder;
  auto cache = openOrDie(folder.path());
  cache->setLockLimit(std::chrono::milliseconds(50));
  const std::string lock = folder / ("kernels/.lock-" + sampleKey().digest());
  int held = open(lock.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  Outcome outcome = obtain(*cache);
  expectMiss(outcome, 1);
  EXPECT_THAT(outcome.log, HasSubstr("another process"));
  expectHit(obtain(*cache));
  close(held);
}

// Whoever holds the lock finishes just when this process gives up.
TEST(ArtifactCache, TheEntryIsLookedUpOnceMoreWhenTheLocksTimeIsOut) {
  TemporaryFolder folder, elsewhere;
  auto cache = openOrDie(folder.path());
  cache->setLockLimit(std::chrono::milliseconds(300));
  obtain(*openOrDie(elsewhere.path()));
  const std::string lock = folder / ("kernels/.lock-" + sampleKey().digest());
  int held = open(lock.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::filesystem::rename(entryPath(elsewhere), entryPath(folder));
  });
  expectHit(obtain(*cache));
  other.join();
  close(held);
}

TEST(ArtifactCache, ADisksMissingLocksAreOneWarning) {
  TemporaryFolder folder;
  auto cache = openOrDie(folder.path());
  flockError = ENOLCK;
  Outcome first = obtain(*cache), second = obtain(*cache, "other");
  flockError = 0;
  expectMiss(first, 1);
  EXPECT_THAT(first.log, HasSubstr("No locks available"));
  expectMiss(second, 0);
}

TEST(KeyLock, GivesUpWhereFilesHaveOtherInodeNumbersThanNames) {
  TemporaryFolder folder;
  const int fd = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY);
  inodesDiffer = true;
  const auto begin = std::chrono::steady_clock::now();
  const auto shortly = KeyLock::acquire(fd, ".lock", std::chrono::milliseconds(3));
  const auto later = KeyLock::acquire(fd, ".lock", std::chrono::minutes(1));
  inodesDiffer = false;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_TRUE(shortly.ok() && !shortly->has_value());
  EXPECT_FALSE(later.ok());
  close(fd);
}

} // namespace
} // namespace tilewright
