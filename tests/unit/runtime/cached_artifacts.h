#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "runtime/artifact_cache.h"
#include "tests/support/artifacts.h"
#include "tests/support/temporary_folder.h"

namespace tilewright::test {

/// A cache of kernels, asked as the runtime asks it, and what came of it.

inline std::unique_ptr<ArtifactCache> openOrDie(const std::string &dir) {
  auto cache = ArtifactCache::open(dir);
  if (!cache.ok()) {
    ADD_FAILURE() << cache.status().message();
    std::abort();
  }
  return *std::move(cache);
}

struct Outcome {
  bool ok = false;
  bool fromDisk = false;
  bool rightCode = false;
  int compiled = 0;
  int warnings = 0;
  std::string log;
};

/// Asks for a kernel as a launch does.
inline Outcome obtain(ArtifactCache &cache, const std::string &kernel = "scale") {
  Outcome outcome;
  ::testing::internal::CaptureStderr();
  auto fromDisk = cache.obtain(
      sampleKey(kernel),
      [&]() -> StatusOr<Artifact> {
        ++outcome.compiled;
        return sampleArtifact(kernel);
      },
      [&](const Artifact &artifact) {
        outcome.rightCode = sameCode(artifact, sampleArtifact(kernel));
        return Status();
      });
  outcome.log = ::testing::internal::GetCapturedStderr();
  for (std::size_t at = 0; (at = outcome.log.find("tilewright: warning:", at)) != std::string::npos; ++at)
    ++outcome.warnings;
  outcome.ok = fromDisk.ok();
  outcome.fromDisk = fromDisk.ok() && *fromDisk;
  return outcome;
}

/// The kernel is there, but had to be compiled.
inline void expectMiss(const Outcome &outcome, int warnings) {
  EXPECT_TRUE(outcome.ok && outcome.rightCode);
  EXPECT_FALSE(outcome.fromDisk);
  EXPECT_EQ(outcome.compiled, 1);
  EXPECT_EQ(outcome.warnings, warnings) << outcome.log;
}

inline void expectHit(const Outcome &outcome) {
  EXPECT_TRUE(outcome.ok && outcome.rightCode && outcome.fromDisk) << outcome.log;
  EXPECT_EQ(outcome.compiled, 0);
  EXPECT_EQ(outcome.log, "");
}

inline std::string entryPath(const TemporaryFolder &folder, const std::string &kernel = "scale") {
  return folder / ("kernels/" + sampleKey(kernel).digest());
}

inline mode_t modeOf(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

inline std::vector<std::string> namesUnder(const std::string &path) {
  std::vector<std::string> names;
  for (const auto &item : std::filesystem::directory_iterator(path))
    names.push_back(item.path().filename());
  return names;
}

} // namespace tilewright::test
