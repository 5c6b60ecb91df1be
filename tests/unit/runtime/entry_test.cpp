#include "runtime/disk/entry.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/artifacts.h"

namespace tilewright {
namespace {

using test::sampleArtifact;
using test::sampleKey;
using ::testing::HasSubstr;

EntryFiles sampleFiles() { return *encodeEntry({sampleKey(), sampleArtifact()}); }

TEST(ArtifactKey, EveryFieldChangesTheDigest) {
  const std::string digest = sampleKey().digest();
  EXPECT_EQ(digest, sampleKey().digest());
  std::string ArtifactKey::*fields[] = {&ArtifactKey::fingerprint, &ArtifactKey::target,
                                        &ArtifactKey::compiler, &ArtifactKey::environment};
  for (auto field : fields) {
    ArtifactKey key = sampleKey();
    key.*field += "x";
    EXPECT_NE(key.digest(), digest);
  }
  std::string KernelKey::*kernelFields[] = {&KernelKey::name, &KernelKey::specialisation,
                                            &KernelKey::options};
  for (auto field : kernelFields) {
    ArtifactKey key = sampleKey();
    key.kernel.*field += "x";
    EXPECT_NE(key.digest(), digest);
  }
}

TEST(Entry, ReadsBack) {
  auto entry = decodeEntry(sampleKey().digest(), sampleFiles());
  ASSERT_TRUE(entry.ok()) << entry.status().message();
  EXPECT_TRUE(test::sameCode(entry->artifact, sampleArtifact()));
  EXPECT_EQ(entry->artifact.compileMilliseconds, 12.34);
  EXPECT_EQ(entry->key.digest(), sampleKey().digest());
  EXPECT_EQ(entry->key.kernel.specialisation, "bf16 64x16");
}

TEST(Entry, EmptyCodeMakesNoFile) {
  Artifact artifact = sampleArtifact();
  artifact.assembly.clear();
  auto files = *encodeEntry({sampleKey(), artifact});
  EXPECT_EQ(files.count("assembly"), 0u);
  EXPECT_EQ(files.count("binary"), 1u);
  EXPECT_TRUE(test::sameCode(decodeEntry(sampleKey().digest(), files)->artifact, artifact));
}

TEST(Entry, EveryFlippedBitIsFound) {
  const std::string digest = sampleKey().digest();
  EntryFiles files = sampleFiles();
  ASSERT_EQ(files.size(), 3u);
  for (auto &[name, bytes] : files)
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      bytes[bit / 8] ^= 1 << bit % 8;
      EXPECT_FALSE(decodeEntry(digest, files).ok()) << name << " bit " << bit;
      bytes[bit / 8] ^= 1 << bit % 8;
    }
  EXPECT_TRUE(decodeEntry(digest, files).ok());
}

TEST(Entry, EveryTruncationAndExtensionIsFound) {
  const std::string digest = sampleKey().digest();
  EntryFiles files = sampleFiles();
  for (auto &file : files) {
    const std::string whole = file.second;
    for (std::size_t length = 0; length < whole.size(); ++length) {
      file.second = whole.substr(0, length);
      EXPECT_FALSE(decodeEntry(digest, files).ok()) << file.first << " of " << length << " bytes";
    }
    for (const char *extra : {"x", " ", "\n", "0"}) {
      file.second = whole + extra;
      EXPECT_FALSE(decodeEntry(digest, files).ok()) << file.first << " with more";
    }
    file.second = whole;
  }
}

TEST(Entry, MissingAndForeignFilesAreFound) {
  const std::string digest = sampleKey().digest();
  for (const char *name : {"manifest.json", "binary", "assembly"}) {
    EntryFiles files = sampleFiles();
    files.erase(name);
    EXPECT_FALSE(decodeEntry(digest, files).ok()) << name;
  }
  EntryFiles files = sampleFiles();
  files["notes.txt"] = "";
  EXPECT_THAT(decodeEntry(digest, files).status().message(), HasSubstr("notes.txt"));
}

TEST(Entry, AWholeEntryOfAnotherKeyIsFound) {
  auto entry = decodeEntry(sampleKey("other").digest(), sampleFiles());
  ASSERT_FALSE(entry.ok());
  EXPECT_THAT(entry.status().message(), HasSubstr("another key"));
}

TEST(Entry, ManifestsThatLieInTypeAreErrors) {
  for (const char *manifest : {"", "{}", "[]", "null", "3", "{\"key\": 1}", "{\"key\": {}, \"artifact\": {}}",
                               "[[[[[[[[[[[[[[[[", "{\"key\": {\"name\": []}}", "\xff\xfe"}) {
    EntryFiles files = sampleFiles();
    files["manifest.json"] = manifest;
    EXPECT_FALSE(decodeEntry(sampleKey().digest(), files).ok()) << manifest;
  }
  EntryFiles deep = sampleFiles();
  deep["manifest.json"] = std::string(1 << 20, '[');
  EXPECT_FALSE(decodeEntry(sampleKey().digest(), deep).ok());
}

// With hashes that fit, as only somebody who may write the folder, or an archive, can bring them.
TEST(Entry, NumbersThatNoKernelHasAreErrors) {
  const std::function<void(Artifact &)> changes[] = {
      [](Artifact &a) { a.clusterCtas = 0; },
      [](Artifact &a) { a.clusterCtas = -2; },
      [](Artifact &a) { a.clusterCtas = 17; },
      [](Artifact &a) { a.threads = -1; },
      [](Artifact &a) { a.threads = 1025; },
      [](Artifact &a) { a.sharedBytes = -1; },
      [](Artifact &a) { a.scratchBytes = -1; },
      [](Artifact &a) { a.grid[0].block = 0; },
      [](Artifact &a) { a.grid[0].parameter = 4; },
      [](Artifact &a) { a.grid[0].dim = 2; },
      [](Artifact &a) { a.grid[0].parameter = 3; },
      [](Artifact &a) { a.grid.resize(4, a.grid[0]); },
      [](Artifact &a) { a.parameters[0].rank = 3; },
      [](Artifact &a) { a.parameters[1].rank = 0; },
      [](Artifact &a) { a.tensorMaps[0].boxRows = 0; },
      [](Artifact &a) { a.tensorMaps[0].parameter = -1; },
  };
  for (const auto &change : changes) {
    Artifact artifact = sampleArtifact();
    change(artifact);
    const auto entry = decodeEntry(sampleKey().digest(), *encodeEntry({sampleKey(), artifact}));
    ASSERT_FALSE(entry.ok());
    EXPECT_THAT(entry.status().message(), HasSubstr("out of range"));
  }
}

TEST(Entry, WhatAManifestHoldsReachesNoTerminal) {
  EntryFiles files = sampleFiles();
  files["manifest.json"] = "{\"\x1b[2J\xff\": ]";
  const std::string message = decodeEntry(sampleKey().digest(), files).status().message();
  for (const char byte : message)
    EXPECT_TRUE(byte >= ' ' && byte < 127) << message;
}

TEST(Entry, AKeyThatIsNotTextIsAnError) {
  ArtifactKey key = sampleKey();
  key.kernel.name = "\xff\xfe";
  EXPECT_FALSE(encodeEntry({key, sampleArtifact()}).ok());
}

} // namespace
} // namespace tilewright
