#include "runtime/bundles.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/host_sources.h"
#include "runtime/open_runtime.h"
#include "tests/support/fake_device.h"
#include "tests/support/temporary_folder.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

BundleContents contentsOf(const std::string &kernel) {
  BundleContents contents;
  contents.sources = hostSources();
  contents.target = "nvptx sm_90a";
  contents.device.name = "a GPU";
  contents.device.units = 132;
  contents.covers = {"all that is asked"};
  Artifact artifact;
  artifact.kernel = kernel;
  artifact.target = contents.target;
  artifact.parameters = {{Parameter::Kind::view, "x", ElementType::bf16, 2, true}};
  artifact.grid = {{0, 1, 8}};
  artifact.binary = std::string("code\0of ", 8) + kernel;
  contents.kernels = {{{kernel, "bf16", "O2"}, artifact}};
  artifact.assembly = "ptx";
  contents.kernels.push_back({{kernel, "f16", "O2"}, artifact});
  return contents;
}

const Target kTarget = {TargetKind::nvptx, "sm_90a", ""};

class BundlesTest : public ::testing::Test {
protected:
  std::string write(const BundleContents &contents, const std::string &name = "a.bundle") {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path, std::ios::binary) << *encodeBundle(contents);
    return path;
  }
  Status refusal(const std::vector<std::string> &paths, const Target &target = kTarget) {
    return Bundles::open(paths, test::FakeDevice({}, target)).status();
  }
  void expectRefused(const std::vector<std::string> &paths, const std::string &cause,
                     const Target &target = kTarget) {
    const Status status = refusal(paths, target);
    EXPECT_EQ(status.kind(), StatusKind::user);
    EXPECT_THAT(status.message(), HasSubstr("bundle " + paths.back()));
    EXPECT_THAT(status.message(), HasSubstr(cause));
  }
  test::TemporaryFolder folder_;
};

TEST_F(BundlesTest, KernelsAreFoundByTheirKeys) {
  auto bundles = Bundles::open({write(contentsOf("one")), write(contentsOf("two"), "b.bundle")},
                               test::FakeDevice({}, kTarget));
  ASSERT_TRUE(bundles.ok()) << bundles.status().message();
  EXPECT_EQ((*bundles)->device().units, 132);
  for (const std::string name : {"one", "two"}) {
    const Artifact *found = (*bundles)->find({name, "f16", "O2"});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->binary, std::string("code\0of ", 8) + name);
    EXPECT_EQ(found->assembly, "ptx");
    EXPECT_EQ(found->parameters[0].element, ElementType::bf16);
    EXPECT_EQ(found->grid[0].block, 8);
    EXPECT_EQ((*bundles)->named(name).size(), 2u);
  }
  EXPECT_FALSE((*bundles)->find({"one", "f32", "O2"}));
  EXPECT_FALSE((*bundles)->find({"one", "bf16", "O3"}));
}

TEST_F(BundlesTest, AnyByteThatChangedIsSeen) {
  const std::string good = *encodeBundle(contentsOf("one"));
  ASSERT_TRUE(decodeBundle(good).ok());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 1 << i % 8;
    EXPECT_EQ(decodeBundle(bad).status().kind(), StatusKind::user) << i;
    EXPECT_FALSE(decodeBundle(good.substr(0, i)).ok()) << i;
  }
  EXPECT_FALSE(decodeBundle(good + "x").ok());
}

TEST_F(BundlesTest, WhatDoesNotFitIsRefused) {
  expectRefused({folder_.path() + "/none"}, "cannot open");
  BundleContents other = contentsOf("one");
  other.sources = "others";
  expectRefused({write(other)},
                "exported by a library of other sources (others, this one is " + hostSources());
  expectRefused({write(contentsOf("one"))}, "open the runtime for that target",
                {TargetKind::nvptx, "sm_80", ""});
  expectRefused({write(contentsOf("one"))}, "it is for a GPU", {TargetKind::cpu, "host", ""});
  other = contentsOf("one");
  other.device.units = 114;
  expectRefused({write(contentsOf("one")), write(other, "b.bundle")}, "exported for another device");
  other = contentsOf("one");
  other.kernels[0].artifact.grid[0].parameter = 1;
  expectRefused({write(other)}, "grid is out of range");
}

TEST_F(BundlesTest, AProcessorMustHaveAllFeatures) {
  BundleContents contents = contentsOf("one");
  contents.target = "cpu znver9 +avx512f,-avx512fp16,+wide";
  const std::string path = write(contents);
  EXPECT_TRUE(refusal({path}, {TargetKind::cpu, "other", "+avx512f,+avx512fp16"}).ok());
  expectRefused({path}, "a processor with avx512f, which", {TargetKind::cpu, "other", "-avx512f,+sse3"});
}

TEST_F(BundlesTest, ARuntimeTakesKernelsFromThemAndNamesTheMissing) {
  auto device = std::make_unique<test::FakeDevice>(DeviceInfo(), kTarget);
  auto bundles = Bundles::open({write(contentsOf("one"))}, *device);
  ASSERT_TRUE(bundles.ok());
  Runtime runtime(std::move(device), {}, *std::move(bundles));
  EXPECT_EQ(runtime.planningInfo().units, 132);
  EXPECT_TRUE(runtime.kernel({"one", "bf16", "O2"}, {}).ok());
  EXPECT_EQ(runtime.counters().bundleHits, 1);
  const Status missing = runtime.kernel({"one", "f32", "O2"}, {}).status();
  EXPECT_EQ(missing.kind(), StatusKind::user);
  EXPECT_THAT(missing.message(),
              HasSubstr("kernel 'one' (specialisation 'f32', options 'O2') is in no bundle"));
  EXPECT_THAT(missing.message(), HasSubstr("a.bundle covers all that is asked"));
  const KernelSource source = {[] { return std::string(); }, [] { return Artifact(); }};
  EXPECT_TRUE(runtime.kernel({"other", "", ""}, source).ok());
  EXPECT_EQ(runtime.counters().compiled, 1);
}

} // namespace
} // namespace tilewright
