#include "autotune/tuning_cache.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "runtime/disk/key_lock.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tuning_records.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;
using test::readWholeFile;
using test::sampleKey;
using test::sampleRecord;
using test::TemporaryFolder;
using test::writeWholeFile;

const auto acceptAll = [](const TuningRecord &) { return true; };

TuningCache::Tune mustNotTune() {
  return []() -> StatusOr<TuningRecord> {
    ADD_FAILURE() << "there is a record";
    return internalError("tuned in vain");
  };
}

std::string textOf(const std::vector<TuningRecord> &records) { return encodeTuningFile({records, "", {}}); }

int count(const std::string &text, const std::string &part) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++found;
  return found;
}

TEST(TuningCache, KeepsRecordsForOthers) {
  TemporaryFolder folder;
  TuningCache first(folder.path());
  EXPECT_EQ(first.find(sampleKey("f32")), nullptr);
  first.store(sampleRecord("f32"));
  first.store(sampleRecord("bf16"));
  first.store(sampleRecord("f32", 11));
  TuningCache second(folder.path());
  ASSERT_NE(second.find(sampleKey("f32")), nullptr);
  EXPECT_EQ(second.find(sampleKey("f32"))->winners[0].milliseconds, 11);
  EXPECT_EQ(second.records().size(), 2u);
  struct stat info;
  ASSERT_EQ(stat((folder / "tuning-v3.json").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(TuningCache, KeepsWhatOthersWroteMeanwhile) {
  TemporaryFolder folder;
  TuningCache one(folder.path()), two(folder.path());
  EXPECT_EQ(one.find(sampleKey("f32")), nullptr);
  two.store(sampleRecord("f32"));
  one.store(sampleRecord("bf16"));
  EXPECT_EQ(TuningCache(folder.path()).records().size(), 2u);
  EXPECT_EQ(one.find(sampleKey("f32")), nullptr) << "a process sees one state of the file";
}

TEST(TuningCache, WithoutAFolderRecordsLiveInMemory) {
  TuningCache cache("");
  cache.store(sampleRecord("f32"));
  EXPECT_NE(cache.find(sampleKey("f32")), nullptr);
  EXPECT_TRUE(cache.obtain(sampleKey("f32"), 0, acceptAll, mustNotTune()).ok());
}

TEST(TuningCache, AFolderThatCannotBeUsedIsOneWarning) {
  TemporaryFolder folder;
  writeWholeFile(folder / "file", "");
  testing::internal::CaptureStderr();
  TuningCache cache(folder / "file");
  cache.store(sampleRecord("f32"));
  cache.store(sampleRecord("bf16"));
  EXPECT_NE(cache.find(sampleKey("f32")), nullptr);
  EXPECT_EQ(count(testing::internal::GetCapturedStderr(), "warning"), 1);
}

TEST(TuningCache, ADamagedFileIsOneWarningAndIsMovedAside) {
  TemporaryFolder folder;
  const std::string damaged = "{\"format\": \"tilewright tuning\", \"version\": 9}";
  writeWholeFile(folder / "tuning-v3.json", damaged);
  testing::internal::CaptureStderr();
  TuningCache cache(folder.path());
  EXPECT_EQ(cache.find(sampleKey("f32")), nullptr);
  EXPECT_EQ(readWholeFile(folder / "tuning-v3.json"), damaged) << "reading changes nothing";
  cache.store(sampleRecord("f32"));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count(said, "warning"), 1) << said;
  EXPECT_THAT(said, HasSubstr("version: expected 2 to 3, found 9"));
  EXPECT_EQ(readWholeFile(folder / "tuning-v3.json.damaged"), damaged);
  EXPECT_EQ(TuningCache(folder.path()).records().size(), 1u);
}

TEST(TuningCache, FilesOfOtherVersionsAreReadOrIgnoredButNeverChanged) {
  TemporaryFolder folder;
  std::string before = textOf({sampleRecord("f32", 11), sampleRecord("bf16", 12)});
  before.replace(before.find("\"version\": 3"), 12, "\"version\": 2");
  const std::string later = "{\"format\": \"tilewright tuning\", \"version\": 4}";
  writeWholeFile(folder / "tuning.json", before);
  writeWholeFile(folder / "tuning-v2.json", "{\"format\": \"tilewright tuning\", \"version\": 1}");
  writeWholeFile(folder / "tuning-v4.json", later);
  testing::internal::CaptureStderr();
  TuningCache cache(folder.path());
  ASSERT_NE(cache.find(sampleKey("bf16")), nullptr);
  EXPECT_EQ(cache.find(sampleKey("bf16"))->winners[0].milliseconds, 12);
  cache.store(sampleRecord("f32", 9));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "no warning";
  EXPECT_EQ(readWholeFile(folder / "tuning.json"), before);
  EXPECT_EQ(readWholeFile(folder / "tuning-v4.json"), later);
  EXPECT_FALSE(std::filesystem::exists(folder / "tuning-v3.json.damaged"));
  TuningCache again(folder.path());
  EXPECT_EQ(again.find(sampleKey("f32"))->winners[0].milliseconds, 9) << "what is newer counts";
  EXPECT_NE(again.find(sampleKey("bf16")), nullptr);
}

TEST(TuningCache, OneWrongRecordLeavesTheOthers) {
  TemporaryFolder folder;
  std::string text = textOf({sampleRecord("f32"), sampleRecord("bf16"), sampleRecord("f16")});
  text.replace(text.rfind("20.25"), 5, "-1.00");
  text.insert(text.find("  \"records\""), "  \"note\": \"kept\",\n");
  writeWholeFile(folder / "tuning-v3.json", text);
  testing::internal::CaptureStderr();
  TuningCache cache(folder.path());
  EXPECT_EQ(cache.records().size(), 2u);
  cache.store(sampleRecord("tf32"));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count(said, "warning"), 1) << said;
  EXPECT_THAT(said, HasSubstr("1 of 3 tuning records"));
  EXPECT_THAT(said, HasSubstr("records[2].winners[1].milliseconds"));
  EXPECT_EQ(readWholeFile(folder / "tuning-v3.json.damaged"), text);
  EXPECT_EQ(TuningCache(folder.path()).records().size(), 3u);
  EXPECT_THAT(readWholeFile(folder / "tuning-v3.json"), HasSubstr("\"note\": \"kept\""));
}

/// A record of a search under a workspace limit.
TuningRecord limited(int64_t limit, double milliseconds) {
  TuningRecord record = sampleRecord("f32", milliseconds);
  record.workspaceLimit = limit;
  return record;
}

TEST(TuningCache, SearchesUnderSeveralLimitsAreKeptSideBySide) {
  TemporaryFolder folder;
  TuningCache(folder.path()).store(limited(1000, 30));
  TuningCache(folder.path()).store(limited(5000, 20));
  TuningCache cache(folder.path());
  const auto found = [&](int64_t limit) {
    const TuningCache::Record record = cache.find(sampleKey("f32"), limit);
    return record ? record->winners[0].milliseconds : 0;
  };
  EXPECT_EQ(found(1000), 30);
  EXPECT_EQ(found(999), 30);
  EXPECT_EQ(found(1001), 20) << "the search under 1000 saw less than this call may use";
  EXPECT_EQ(found(5001), 0);
  EXPECT_EQ(found(0), 0);
  cache.store(limited(0, 10));
  EXPECT_EQ(found(0), 10);
  EXPECT_EQ(found(5001), 10);
  EXPECT_EQ(found(5000), 20);
  EXPECT_EQ(TuningCache(folder.path()).records().size(), 3u);
  int tuned = 0;
  const auto record = cache.obtain(sampleKey("f32"), 4000, acceptAll, [&]() -> StatusOr<TuningRecord> {
    ++tuned;
    return limited(4000, 25);
  });
  EXPECT_EQ((*record)->winners[0].milliseconds, 20);
  EXPECT_EQ(tuned, 0);
}

TEST(TuningCache, NobodyWaitsForAnotherThreadsStore) {
  TemporaryFolder folder;
  TuningCache cache(folder.path());
  cache.store(sampleRecord("f32"));
  const FileDescriptor descriptor = *openPrivateFolder(folder.path());
  auto lock = KeyLock::acquire(descriptor.get(), ".tuning-write-lock", 0ms);
  ASSERT_TRUE(lock.ok() && lock->has_value());
  std::atomic<bool> stored{false};
  std::thread writer([&] {
    cache.store(sampleRecord("bf16"));
    stored = true;
  });
  std::atomic<int> found{0};
  std::thread reader([&] {
    std::this_thread::sleep_for(50ms); // the writer waits for the lock by then
    found = cache.find(sampleKey("f32")) != nullptr ? 1 : 2;
  });
  for (int i = 0; i < 100 && found == 0; ++i)
    std::this_thread::sleep_for(20ms);
  EXPECT_EQ(found, 1);
  EXPECT_FALSE(stored);
  lock->reset();
  reader.join();
  writer.join();
  EXPECT_EQ(TuningCache(folder.path()).records().size(), 2u);
}

TEST(TuningCache, WhatIsNoPlainFileIsIgnored) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "tuning-v3.json").c_str(), 0600), 0);
  testing::internal::CaptureStderr();
  TuningCache cache(folder.path());
  EXPECT_EQ(cache.find(sampleKey("f32")), nullptr);
  EXPECT_EQ(count(testing::internal::GetCapturedStderr(), "warning"), 1);
}

TEST(TuningCache, RemovesWhatDeadWritersLeft) {
  TemporaryFolder folder;
  writeWholeFile(folder / ".tuning-new-0123456789abcdef", "{");
  TuningCache(folder.path()).store(sampleRecord("f32"));
  EXPECT_FALSE(std::filesystem::exists(folder / ".tuning-new-0123456789abcdef"));
}

TEST(TuningCache, TunesOnceForAllThreads) {
  TemporaryFolder folder;
  TuningCache cache(folder.path());
  std::atomic<int> tuned{0}, right{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      const auto record = cache.obtain(sampleKey("f32"), 0, acceptAll, [&]() -> StatusOr<TuningRecord> {
        ++tuned;
        std::this_thread::sleep_for(20ms);
        return sampleRecord("f32");
      });
      right += record.ok() && *record && (*record)->winners.size() == 2;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(tuned, 1);
  EXPECT_EQ(right, 8);
}

TEST(TuningCache, ARecordThatIsNotAcceptedIsReplaced) {
  TemporaryFolder folder;
  TuningCache cache(folder.path());
  cache.store(sampleRecord("f32"));
  const auto accept = [](const TuningRecord &record) { return record.winners[0].milliseconds < 10; };
  ASSERT_TRUE(
      cache.obtain(sampleKey("f32"), 0, accept, [] { return StatusOr<TuningRecord>(sampleRecord("f32", 9)); })
          .ok());
  EXPECT_EQ(TuningCache(folder.path()).find(sampleKey("f32"))->winners[0].milliseconds, 9);
}

TEST(TuningCache, AFailureIsTheCallersAndIsNotRepeated) {
  TemporaryFolder folder;
  TuningCache cache(folder.path());
  int tuned = 0;
  const auto fail = [&]() -> StatusOr<TuningRecord> {
    ++tuned;
    return runtimeError("no");
  };
  EXPECT_EQ(cache.failure(sampleKey("f32"), 0), std::nullopt);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(cache.obtain(sampleKey("f32"), 0, acceptAll, fail).status().message(), "no");
  EXPECT_EQ(tuned, 1);
  EXPECT_EQ(cache.failure(sampleKey("f32"), 0)->message(), "no");
  EXPECT_EQ(cache.find(sampleKey("f32")), nullptr);
  EXPECT_FALSE(cache.obtain(sampleKey("f32"), 1000, acceptAll, fail).ok());
  EXPECT_FALSE(cache.obtain(sampleKey("bf16"), 0, acceptAll, fail).ok());
  EXPECT_EQ(tuned, 3) << "another limit and another key are other searches";
  cache.store(sampleRecord("f32"));
  EXPECT_TRUE(cache.obtain(sampleKey("f32"), 0, acceptAll, mustNotTune()).ok());
}

TEST(TuningCache, OfThreadsThatWaitForOneSearchNoneRepeatsItsFailure) {
  TemporaryFolder folder;
  TuningCache cache(folder.path());
  std::atomic<int> tuned{0}, failed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      failed += !cache
                     .obtain(sampleKey("f32"), 0, acceptAll,
                             [&]() -> StatusOr<TuningRecord> {
                               ++tuned;
                               std::this_thread::sleep_for(20ms);
                               return runtimeError("no");
                             })
                     .ok();
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(tuned, 1);
  EXPECT_EQ(failed, 4);
}

TEST(TuningCache, WaitsNoLongerThanTheLimitAndOnce) {
  TemporaryFolder folder;
  TuningCache holder(folder.path()), waiter(folder.path());
  waiter.setLockLimit(30ms);
  const auto record = holder.obtain(sampleKey("f32"), 0, acceptAll, [&]() -> StatusOr<TuningRecord> {
    const auto none = waiter.obtain(sampleKey("f32"), 0, acceptAll, mustNotTune());
    EXPECT_THAT(none.status().message(), HasSubstr("another process"));
    waiter.setLockLimit(10min);
    EXPECT_FALSE(waiter.obtain(sampleKey("f32"), 0, acceptAll, mustNotTune()).ok());
    return sampleRecord("f32");
  });
  EXPECT_TRUE(record.ok());
}

TEST(TuningCache, ExportsAndImports) {
  TemporaryFolder from, to;
  TuningCache source(from.path()), target(to.path());
  source.store(sampleRecord("f32"));
  source.store(sampleRecord("bf16"));
  target.store(sampleRecord("f32", 3));
  const std::string file = from / "exported.json";
  EXPECT_EQ(*source.exportTo(file), 2);
  EXPECT_FALSE(source.exportTo(file).ok()) << "an export never overwrites";
  EXPECT_EQ(*target.importFrom(file), 1);
  EXPECT_EQ(*target.importFrom(file), 0);
  EXPECT_EQ(target.find(sampleKey("f32"))->winners[0].milliseconds, 3) << "one's own record stays";
  EXPECT_EQ(TuningCache(to.path()).records().size(), 2u);
}

TEST(TuningCache, AWrongImportAddsNothing) {
  TemporaryFolder folder;
  TuningCache cache(folder.path());
  std::string text = textOf({sampleRecord("f32"), sampleRecord("bf16")});
  text.replace(text.rfind("20.25"), 5, "-1.00");
  writeWholeFile(folder / "wrong.json", text);
  const auto imported = cache.importFrom(folder / "wrong.json");
  ASSERT_FALSE(imported.ok());
  EXPECT_EQ(imported.status().kind(), StatusKind::user);
  EXPECT_THAT(imported.status().message(), HasSubstr("wrong.json: records[1].winners[1].milliseconds"));
  EXPECT_TRUE(cache.records().empty());
  EXPECT_FALSE(cache.importFrom(folder / "absent.json").ok());
}

} // namespace
} // namespace tilewright
