#include "runtime/runtime.h"

#include <chrono>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/artifacts.h"
#include "tests/support/fake_device.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_object.h"

namespace tilewright {
namespace {

using test::sampleArtifact;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

const KernelKey kKey{"scale", "spec", "options"};

Environment environmentWith(const std::string &cacheDir) {
  Environment environment;
  environment.cacheDir = cacheDir;
  return environment;
}

std::unique_ptr<Runtime> fakeRuntime(const std::string &cacheDir) {
  return std::make_unique<Runtime>(std::make_unique<test::FakeDevice>(), environmentWith(cacheDir));
}

KernelSource sourceOf(const Artifact &artifact, const std::string &fingerprint = "body") {
  return {[=] { return StatusOr<std::string>(fingerprint); }, [=] { return StatusOr<Artifact>(artifact); }};
}

TEST(OpenDevice, OpensTheCpuAndRefusesOthersWithTheChoices) {
  unsetenv("TILEWRIGHT_DEVICE");
  EXPECT_TRUE(openDevice("cpu").ok());
  EXPECT_TRUE(openDevice().ok());
  for (const char *name : {"tpu", "CPU", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:12345"}) {
    auto device = openDevice(name);
    ASSERT_FALSE(device.ok()) << name;
    EXPECT_EQ(device.status().kind(), StatusKind::user);
    EXPECT_THAT(device.status().message(), HasSubstr(std::string("'") + name + "'"));
    EXPECT_THAT(device.status().message(), HasSubstr("choices: cpu"));
  }
  EXPECT_TRUE(openDevice("cpu", "cpu").ok());
  EXPECT_THAT(openDevice("cpu", "sm_80").status().message(), HasSubstr("expected a GPU"));
  auto missing = openDevice("cuda:9999");
  EXPECT_EQ(missing.status().kind(), StatusKind::noDevice);
  EXPECT_THAT(missing.status().message(), AllOf(HasSubstr("device 'cuda:9999': "), HasSubstr("found")));
}

// The least processor of 64 bits is part of every one; nothing has both AMD's FMA4 and Intel's AMX.
TEST(OpenDevice, CodeIsForTheNamedProcessor) {
  const auto least = openDevice("cpu", "x86-64");
  ASSERT_TRUE(least.ok()) << least.status().message();
  EXPECT_EQ((*least)->target().arch, "x86-64");
  EXPECT_THAT((*least)->info().name, HasSubstr("code for x86-64"));
  EXPECT_NE((*least)->info().fingerprint, (*openDevice("cpu"))->info().fingerprint);
  int refused = 0;
  for (const char *name : {"bdver4", "sapphirerapids"})
    if (const auto device = openDevice("cpu", name); !device.ok()) {
      EXPECT_EQ(device.status().kind(), StatusKind::user);
      EXPECT_THAT(device.status().message(), AllOf(HasSubstr(name), HasSubstr("beside what this one has")));
      ++refused;
    }
  EXPECT_GT(refused, 0);
}

TEST(OpenDevice, TheEnvironmentsTargetIsOfItsKind) {
  setenv("TILEWRIGHT_TARGET", "sm_80", 1);
  EXPECT_EQ((*openDevice("cpu"))->target().str(), hostTarget().str());
  setenv("TILEWRIGHT_TARGET", "x86-64", 1);
  EXPECT_EQ((*openDevice("cpu"))->target().arch, "x86-64");
  setenv("TILEWRIGHT_TARGET", "toaster", 1);
  EXPECT_THAT(openDevice("cpu").status().message(), HasSubstr("'toaster' is not known"));
  unsetenv("TILEWRIGHT_TARGET");
}

TEST(OpenDevice, FollowsTheEnvironment) {
  setenv("TILEWRIGHT_DEVICE", "cuda:9999", 1);
  EXPECT_FALSE(openDevice().ok());
  EXPECT_TRUE(openDevice("cpu").ok());
  setenv("TILEWRIGHT_DEVICE", "toaster", 1);
  EXPECT_THAT(openDevice("cpu").status().message(), HasSubstr("TILEWRIGHT_DEVICE"));
  setenv("TILEWRIGHT_DEVICE", "cpu", 1);
  setenv("TILEWRIGHT_THREADS", "3", 1);
  EXPECT_EQ((*openDevice())->info().units, 3);
  unsetenv("TILEWRIGHT_THREADS");
  unsetenv("TILEWRIGHT_DEVICE");
}

TEST(Runtime, CountsWhereKernelsCameFrom) {
  TemporaryFolder folder;
  auto first = fakeRuntime(folder.path());
  ASSERT_TRUE(first->kernel(kKey, sourceOf(sampleArtifact())).ok());
  ASSERT_TRUE(first->kernel(kKey, sourceOf(sampleArtifact())).ok());
  EXPECT_EQ(first->counters().compiled, 1);
  EXPECT_EQ(first->counters().memoryHits, 1);
  EXPECT_EQ(first->counters().diskHits, 0);
  EXPECT_GE(first->counters().compileMilliseconds, 0);

  auto second = fakeRuntime(folder.path());
  auto kernel = second->kernel(kKey, sourceOf(sampleArtifact()));
  ASSERT_TRUE(kernel.ok());
  EXPECT_TRUE(test::sameCode((*kernel)->artifact(), sampleArtifact()));
  EXPECT_EQ(second->counters().compiled, 0);
  EXPECT_EQ(second->counters().diskHits, 1);
}

TEST(Runtime, AnEditedKernelIsCompiledAgain) {
  TemporaryFolder folder;
  ASSERT_TRUE(fakeRuntime(folder.path())->kernel(kKey, sourceOf(sampleArtifact(), "before")).ok());
  auto runtime = fakeRuntime(folder.path());
  ASSERT_TRUE(runtime->kernel(kKey, sourceOf(sampleArtifact(), "after")).ok());
  EXPECT_EQ(runtime->counters().compiled, 1);
}

TEST(Runtime, WithoutAFolderKernelsAreCompiled) {
  ::testing::internal::CaptureStderr();
  for (int run = 0; run < 2; ++run) {
    auto runtime = fakeRuntime("");
    ASSERT_TRUE(runtime->kernel(kKey, sourceOf(sampleArtifact())).ok());
    EXPECT_EQ(runtime->counters().compiled, 1);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Runtime, AnUnusableFolderIsOneWarning) {
  TemporaryFolder folder;
  test::writeWholeFile(folder / "file", "x");
  mkdir((folder / "open").c_str(), 0700);
  chmod((folder / "open").c_str(), 0777);
  for (const std::string &dir : {folder / "file/cache", folder / "open"}) {
    ::testing::internal::CaptureStderr();
    auto runtime = fakeRuntime(dir);
    for (const char *name : {"a", "b", "c"})
      ASSERT_TRUE(runtime->kernel({name, "", ""}, sourceOf(sampleArtifact(name))).ok());
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(log, HasSubstr(dir));
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  }
}

TEST(Runtime, NothingIsMadeOnDiskBeforeAKernelIs) {
  TemporaryFolder folder;
  fakeRuntime(folder / "cache");
  EXPECT_FALSE(std::filesystem::exists(folder / "cache"));
}

TEST(Runtime, DumpsNeedTheCompiler) {
  TemporaryFolder folder;
  ASSERT_TRUE(fakeRuntime(folder.path())->kernel(kKey, sourceOf(sampleArtifact())).ok());
  Environment environment = environmentWith(folder.path());
  environment.dump = {"tile"};
  Runtime runtime(std::make_unique<test::FakeDevice>(), environment);
  ASSERT_TRUE(runtime.kernel(kKey, sourceOf(sampleArtifact())).ok());
  EXPECT_EQ(runtime.counters().compiled, 1);
}

TEST(Runtime, ErrorsOfFingerprintCompilerAndLoaderComeBack) {
  TemporaryFolder folder;
  auto runtime = fakeRuntime(folder.path());
  KernelSource source = sourceOf(sampleArtifact());
  source.fingerprint = []() -> StatusOr<std::string> { return compileError("bad body"); };
  EXPECT_EQ(runtime->kernel(kKey, source).status().message(), "bad body");
  source = sourceOf(sampleArtifact());
  source.compile = []() -> StatusOr<Artifact> { return compileError("bad code"); };
  EXPECT_EQ(runtime->kernel(kKey, source).status().message(), "bad code");
  Artifact refused = sampleArtifact();
  refused.binary = "refuse";
  EXPECT_THAT(runtime->kernel(kKey, sourceOf(refused)).status().message(), HasSubstr("refuses"));
  EXPECT_TRUE(runtime->kernel(kKey, sourceOf(sampleArtifact())).ok());
}

TEST(Runtime, MachineCodeFromDiskRuns) {
  TemporaryFolder folder;
  Artifact artifact;
  artifact.kernel = "seven";
  artifact.parameters = {{Parameter::Kind::view, "out", ElementType::i64, 1, true}};
  artifact.binary =
      test::objectFromIr("define void @seven(ptr %slots, ptr %id, ptr %scratch) {\n"
                         "  %out = load ptr, ptr %slots\n  store i64 7, ptr %out\n  ret void\n}");
  for (int run = 0; run < 2; ++run) {
    Runtime runtime(*openDevice("cpu"), environmentWith(folder.path()));
    const auto begin = std::chrono::steady_clock::now();
    auto kernel = runtime.kernel({"seven", "", ""}, sourceOf(artifact));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    int64_t out = 0;
    ASSERT_TRUE(
        runtime.device().launch(**kernel, {TensorRef::vector(&out, ElementType::i64, 1)}, nullptr).ok());
    EXPECT_EQ(out, 7);
    EXPECT_EQ(runtime.counters().diskHits, run);
    RecordProperty(run ? "warmMilliseconds" : "coldMilliseconds", std::to_string(took.count()));
  }
}

} // namespace
} // namespace tilewright
