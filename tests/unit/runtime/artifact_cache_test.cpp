// What a cache of kernels keeps, repairs, lists and exports.

#include <fstream>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/unit/runtime/cached_artifacts.h"

namespace tilewright {
namespace {

using namespace test;
using ::testing::HasSubstr;

TEST(ArtifactCache, KeepsWhatWasCompiled) {
  TemporaryFolder folder;
  expectMiss(obtain(*openOrDie(folder / "a/b/cache")), 0);
  auto again = openOrDie(folder / "a/b/cache");
  expectHit(obtain(*again));
  expectMiss(obtain(*again, "other"), 0);
  expectHit(obtain(*again, "other"));
  EXPECT_EQ(namesUnder(folder / "a/b/cache/kernels").size(), 2u); // no locks, no leftovers
}

TEST(ArtifactCache, NobodyElseMayReadOrWrite) {
  TemporaryFolder folder;
  const mode_t before = umask(0);
  obtain(*openOrDie(folder / "cache"));
  umask(before);
  for (const auto &item : std::filesystem::recursive_directory_iterator(folder.path()))
    EXPECT_EQ(modeOf(item.path()), item.is_directory() ? 0700u : 0600u) << item.path();
}

TEST(ArtifactCache, AFailedCompilationIsReportedAndNotKept) {
  TemporaryFolder folder;
  auto cache = openOrDie(folder.path());
  auto use = [](const Artifact &) { return Status(); };
  auto failed = cache->obtain(
      sampleKey(), []() -> StatusOr<Artifact> { return compileError("no"); }, use);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.status().message(), "no");
  EXPECT_TRUE(namesUnder(folder / "kernels").empty());
  expectMiss(obtain(*cache), 0);
}

TEST(ArtifactCache, EveryFlippedBitOnDiskIsFound) {
  TemporaryFolder folder;
  auto cache = openOrDie(folder.path());
  obtain(*cache);
  for (const char *name : {"manifest.json", "binary", "assembly"}) {
    const std::string path = entryPath(folder) + "/" + name, whole = readWholeFile(path);
    ASSERT_FALSE(whole.empty());
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      file.seekp(bit / 8).put(whole[bit / 8] ^ 1 << bit % 8).flush();
      auto entries = cache->entries();
      ASSERT_TRUE(entries.ok() && entries->size() == 1);
      EXPECT_NE((*entries)[0].problem, "") << name << " bit " << bit;
      file.seekp(bit / 8).put(whole[bit / 8]).flush();
    }
  }
  expectHit(obtain(*cache));
}

TEST(ArtifactCache, DamageIsSurvivedWithOneWarningAndRepaired) {
  TemporaryFolder folder;
  auto cache = openOrDie(folder.path());
  obtain(*cache);
  for (const char *name : {"manifest.json", "binary", "assembly"}) {
    const std::string path = entryPath(folder) + "/" + name, whole = readWholeFile(path);
    for (std::size_t length = 0; length < whole.size(); length += 1 + whole.size() / 40) {
      writeWholeFile(path, whole.substr(0, length));
      Outcome outcome = obtain(*cache);
      expectMiss(outcome, 1);
      EXPECT_THAT(outcome.log, HasSubstr(sampleKey().digest()));
      expectHit(obtain(*cache));
    }
    for (std::size_t bit = 0; bit < 8 * whole.size(); bit += 1 + whole.size() / 5) {
      std::string damaged = whole;
      damaged[bit / 8] ^= 1 << bit % 8;
      writeWholeFile(path, damaged);
      expectMiss(obtain(*cache), 1);
      expectHit(obtain(*cache));
    }
  }
}

struct Oddity {
  const char *what;
  std::function<bool()> make;
};

TEST(ArtifactCache, OddThingsInPlaceOfAnEntryAreReplaced) {
  TemporaryFolder folder;
  auto cache = openOrDie(folder.path());
  const std::string entry = entryPath(folder);
  const std::vector<Oddity> oddities = {
      {"an empty folder", [&] { return mkdir(entry.c_str(), 0700) == 0; }},
      {"a file", [&] { return writeWholeFile(entry, "file"), true; }},
      {"a dangling link", [&] { return symlink("/nowhere/at/all", entry.c_str()) == 0; }},
      {"a link to a folder", [&] { return symlink("/etc", entry.c_str()) == 0; }},
      {"a named pipe", [&] { return mkfifo(entry.c_str(), 0600) == 0; }},
  };
  for (const Oddity &oddity : oddities) {
    SCOPED_TRACE(oddity.what);
    std::filesystem::remove_all(entry);
    ASSERT_TRUE(oddity.make());
    expectMiss(obtain(*cache), 1);
    expectHit(obtain(*cache));
  }
}

TEST(ArtifactCache, EntriesWithOddThingsInThemAreReplaced) {
  TemporaryFolder folder;
  auto cache = openOrDie(folder.path());
  const std::string entry = entryPath(folder), manifest = entry + "/manifest.json",
                    binary = entry + "/binary";
  auto removed = [](const std::string &path) { return unlink(path.c_str()) == 0; };
  const std::vector<Oddity> oddities = {
      {"no manifest", [&] { return removed(manifest); }},
      {"a pipe as manifest", [&] { return removed(manifest) && mkfifo(manifest.c_str(), 0600) == 0; }},
      {"a folder as manifest", [&] { return removed(manifest) && mkdir(manifest.c_str(), 0700) == 0; }},
      {"a link as manifest",
       [&] { return removed(manifest) && symlink("/etc/passwd", manifest.c_str()) == 0; }},
      {"a huge manifest", [&] { return truncate(manifest.c_str(), int64_t(1) << 40) == 0; }},
      {"a huge binary", [&] { return truncate(binary.c_str(), int64_t(1) << 40) == 0; }},
      {"a foreign file", [&] { return writeWholeFile(entry + "/more", "x"), true; }},
      {"a foreign folder", [&] { return std::filesystem::create_directories(entry + "/a/b/c"); }},
      {"a file that others may write", [&] { return chmod(binary.c_str(), 0666) == 0; }},
      {"a folder that others may write", [&] { return chmod(entry.c_str(), 0777) == 0; }},
  };
  obtain(*cache);
  for (const Oddity &oddity : oddities) {
    SCOPED_TRACE(oddity.what);
    ASSERT_TRUE(oddity.make());
    expectMiss(obtain(*cache), 1);
    expectHit(obtain(*cache));
  }
}

// Out of memory, a fault of an earlier kernel: the entry on the shared disk is good all the same.
TEST(ArtifactCache, AnArtifactThatTheDeviceRefusesStays) {
  TemporaryFolder folder;
  auto cache = openOrDie(folder.path());
  obtain(*cache);
  ::testing::internal::CaptureStderr();
  const Status refused = cache
                             ->obtain(
                                 sampleKey(), [&]() -> StatusOr<Artifact> { return sampleArtifact(); },
                                 [&](const Artifact &) { return runtimeError("out of memory"); })
                             .status();
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(refused.message(), "out of memory");
  expectHit(obtain(*cache));
}

TEST(ArtifactCache, AnArtifactThatDoesNotLoadIsCompiledAgain) {
  TemporaryFolder folder;
  auto cache = openOrDie(folder.path());
  obtain(*cache);
  ::testing::internal::CaptureStderr();
  int compiled = 0;
  auto fromDisk = cache->obtain(
      sampleKey(),
      [&]() -> StatusOr<Artifact> {
        ++compiled;
        return sampleArtifact();
      },
      [&](const Artifact &) { return compiled ? Status() : runtimeError("not for this machine"); });
  const std::string log = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(fromDisk.ok());
  EXPECT_FALSE(*fromDisk);
  EXPECT_EQ(compiled, 1);
  EXPECT_THAT(log, HasSubstr("not for this machine"));
  expectHit(obtain(*cache));
}

TEST(ArtifactCache, WhatDeadProcessesLeftIsRemovedAndLivingOnesAreNotDisturbed) {
  TemporaryFolder folder;
  auto cache = openOrDie(folder.path());
  std::filesystem::create_directories(folder / "kernels/.new-dead/deep");
  writeWholeFile(folder / "kernels/.new-dead/binary", "half");
  writeWholeFile(folder / "kernels/.lock-dead", "");
  std::filesystem::create_directories(folder / "kernels/.new-living");
  int living = open((folder / "kernels/.new-living").c_str(), O_RDONLY);
  int lock = open((folder / "kernels/.lock-living").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_TRUE(flock(living, LOCK_EX) == 0 && flock(lock, LOCK_EX) == 0);
  expectMiss(obtain(*cache), 0);
  EXPECT_THAT(namesUnder(folder / "kernels"),
              ::testing::UnorderedElementsAre(".new-living", ".lock-living", sampleKey().digest()));
  close(living);
  close(lock);
  auto pruned = cache->prune(sampleKey().compiler);
  ASSERT_TRUE(pruned.ok());
  EXPECT_EQ(pruned->leftovers, 2);
  EXPECT_EQ(pruned->entries, 0);
  EXPECT_EQ(namesUnder(folder / "kernels").size(), 1u);
}

TEST(ArtifactCache, ListsAndPrunes) {
  TemporaryFolder folder;
  auto cache = openOrDie(folder.path());
  for (const char *kernel : {"a", "b", "c"})
    obtain(*cache, kernel);
  writeWholeFile(entryPath(folder, "b") + "/binary", "damaged");
  auto entries = cache->entries();
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 3u);
  for (const CacheEntry &entry : *entries) {
    const bool damaged = entry.digest == sampleKey("b").digest();
    EXPECT_EQ(entry.problem.empty(), !damaged);
    EXPECT_EQ(entry.key.kernel.name.empty(), damaged);
    EXPECT_EQ(entry.bytes > 0, !damaged);
  }
  EXPECT_EQ(cache->prune(sampleKey().compiler)->entries, 1);
  EXPECT_EQ(cache->entries()->size(), 2u);
  EXPECT_EQ(cache->prune("another version")->entries, 2);
  EXPECT_TRUE(cache->entries()->empty());
}

TEST(ArtifactCache, ExportsAndImports) {
  TemporaryFolder from, to;
  auto source = openOrDie(from.path()), target = openOrDie(to.path());
  for (const char *kernel : {"a", "b", "c"})
    obtain(*source, kernel);
  writeWholeFile(entryPath(from, "c") + "/binary", "damaged");
  EXPECT_EQ(*source->exportTo(to / "kernels.tar"), 2);
  obtain(*target, "a");
  EXPECT_EQ(*target->importFrom(to / "kernels.tar"), 1);
  expectHit(obtain(*target, "a"));
  expectHit(obtain(*target, "b"));
  EXPECT_EQ(*target->importFrom(to / "kernels.tar"), 0);
}

TEST(ArtifactCache, ABadArchiveAddsNothing) {
  TemporaryFolder from, to;
  auto source = openOrDie(from.path()), target = openOrDie(to.path());
  for (const char *kernel : {"a", "b"})
    obtain(*source, kernel);
  ASSERT_TRUE(source->exportTo(to / "kernels.tar").ok());
  const std::string whole = readWholeFile(to / "kernels.tar");
  // A changed byte of an entry's code, a truncated file, another file altogether, none.
  std::string changed = whole;
  changed[changed.rfind("code ")] ^= 1;
  for (const std::string &bytes :
       {changed, whole.substr(0, whole.size() / 2), std::string("hello"), std::string()}) {
    writeWholeFile(to / "bad.tar", bytes);
    auto imported = target->importFrom(to / "bad.tar");
    ASSERT_FALSE(imported.ok());
    EXPECT_EQ(imported.status().kind(), StatusKind::user);
    EXPECT_TRUE(target->entries()->empty());
  }
  EXPECT_EQ(target->importFrom(to / "none.tar").status().kind(), StatusKind::user);
  EXPECT_FALSE(source->exportTo(from / "no/such/folder.tar").ok());
}

} // namespace
} // namespace tilewright
