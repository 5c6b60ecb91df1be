#include "runtime/cuda/placement.h"

#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cuda/cuda_device.h"
#include "tests/support/fake_driver.h"

namespace tilewright {
namespace {

using namespace cuda;
using test::fakeCubin;
using test::FakeDriver;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kGpcs = 6, kOfGpc = 22; // 132 multiprocessors, of which a GPC's are every sixth pair

int multiprocessorOf(int gpc, int number) { return 2 * (number / 2 * kGpcs + gpc) + number % 2; }

/// Gives clusters to GPCs in turn, and notes each CTA's multiprocessor as the probe does.
class Scheduler {
public:
  void operator()(const CUlaunchConfig &config, void **parameters) {
    int32_t *notes = *static_cast<int32_t **>(parameters[0]);
    const unsigned size = config.attrs[0].value.clusterDim.x;
    for (unsigned i = 0; i < config.gridDimX; ++i) {
      const int gpc = static_cast<int>(i / size) % kGpcs;
      notes[i] = multiprocessorOf(gpc, next_[gpc]++ % kOfGpc);
    }
  }

private:
  std::map<int, int> next_; ///< of each GPC
};

std::optional<int> noPowerLimit(const std::string &) { return std::nullopt; }

class CudaPlacement : public ::testing::Test {
protected:
  CudaPlacement() {
    fake.onProbe = Scheduler();
    // add(n): a persistent kernel of n programs in clusters of two.
    artifact.kernel = "add";
    artifact.parameters = {{Parameter::Kind::index, "n", ElementType::f32, 0, false}};
    artifact.grid = {{0, 0, 1}};
    artifact.threads = 128;
    artifact.persistent = true;
    artifact.clusterCtas = 2;
    artifact.ranksClusters = true;
    artifact.binary = fakeCubin("add");
  }
  ~CudaPlacement() override {
    device.reset();
    EXPECT_TRUE(fake.memory.empty());
    EXPECT_TRUE(fake.deviceMemory.empty());
    EXPECT_TRUE(fake.hostMemory.empty());
    EXPECT_TRUE(fake.modules.empty());
    EXPECT_TRUE(fake.streams.empty());
    EXPECT_THAT(fake.mistakes, IsEmpty());
  }

  void open(const std::string &target = "") {
    auto opened = CudaDevice::open(fake.table(), 0, noPowerLimit, target);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    device = *std::move(opened);
  }

  /// What a launch of so many programs is told.
  const int32_t *ranksOf(const LoadedKernel &kernel, int64_t programs) {
    fake.parameterBytes = {8, 8};
    EXPECT_TRUE(device->launch(kernel, {programs}, nullptr).ok());
    fake.parameterBytes.clear();
    return fake.launches().back().parameter<const int32_t *>(1);
  }

  FakeDriver fake;
  std::unique_ptr<Device> device;
  Artifact artifact;
};

TEST_F(CudaPlacement, ClustersOfAGpcTakeNeighbours) {
  open();
  auto kernel = device->load(artifact);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  const int32_t *ranks = ranksOf(**kernel, 1000);
  ASSERT_TRUE(ranks);
  std::vector<int> gpcs(66, -1); // of the cluster of each rank
  for (int cluster = 0; cluster < 66; ++cluster)
    gpcs.at(ranks[cluster]) = cluster % kGpcs;
  EXPECT_TRUE(std::is_sorted(gpcs.begin(), gpcs.end())) << ::testing::PrintToString(gpcs);
  for (int gpc = 0; gpc < kGpcs; ++gpc)
    EXPECT_EQ(std::count(gpcs.begin(), gpcs.end(), gpc), kOfGpc / 2);
}

// A load may be part of a user's call, whose stream has work already.
TEST_F(CudaPlacement, IsLookedForWhenTheDeviceIsOpened) {
  open();
  const std::size_t probes = fake.probes().size();
  EXPECT_GT(probes, 0u);
  fake.forgetCalls();
  ASSERT_TRUE(device->load(artifact).ok());
  EXPECT_EQ(fake.probes().size(), probes);
  EXPECT_THAT(fake.calls(), Not(Contains("cuStreamSynchronize")));
}

TEST_F(CudaPlacement, NeverUsesTheDefaultStream) {
  open();
  ASSERT_TRUE(device->load(artifact).ok());
  EXPECT_GT(fake.streamsUsed().count("cuStreamSynchronize"), 0u);
  for (const auto &[call, stream] : fake.streamsUsed())
    EXPECT_NE(stream, nullptr) << call;
}

TEST_F(CudaPlacement, DevicesWithoutSuchKernelsAreNotAsked) {
  open("sm_80");
  EXPECT_TRUE(fake.probes().empty());
}

TEST_F(CudaPlacement, FewerClustersKeepTheirNumbers) {
  open();
  auto kernel = device->load(artifact);
  EXPECT_FALSE(ranksOf(**kernel, 65));
  EXPECT_TRUE(ranksOf(**kernel, 66));
}

TEST_F(CudaPlacement, OthersWorkOnTheDeviceLeavesNumbers) {
  fake.onProbe = [](const CUlaunchConfig &config, void **parameters) {
    for (unsigned i = 0; i < config.gridDimX; ++i)
      (*static_cast<int32_t **>(parameters[0]))[i] = static_cast<int32_t>(i % 100);
  };
  open();
  auto kernel = device->load(artifact);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  EXPECT_FALSE(ranksOf(**kernel, 1000));
}

TEST_F(CudaPlacement, ADriverThatRefusesLeavesNumbers) {
  for (const char *call : {"cuStreamCreate", "cuLaunchKernelEx", "cuStreamSynchronize", "cuMemAlloc"}) {
    fake.fail(call, CUDA_ERROR_INVALID_VALUE);
    open();
    fake.fail(call, CUDA_SUCCESS);
    auto kernel = device->load(artifact);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    EXPECT_FALSE(ranksOf(**kernel, 1000)) << call;
  }
}

// By whether the default stream waits for the captured one. What a capture forbids is a mistake.
TEST_F(CudaPlacement, ACaptureIsNotDisturbed) {
  for (bool blocks : {true, false}) {
    fake.captured = reinterpret_cast<CUstream>(3);
    fake.capturedBlocks = blocks;
    open();
    auto kernel = device->load(artifact);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    EXPECT_THAT(fake.mistakes, IsEmpty());
    kernel = userError("gone");
    device.reset();
    EXPECT_THAT(fake.mistakes, IsEmpty());
    fake.captured.reset();
  }
}

TEST_F(CudaPlacement, AKernelLoadedInACaptureHasRanks) {
  open();
  fake.captured = reinterpret_cast<CUstream>(3);
  auto kernel = device->load(artifact);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  fake.captured.reset();
  EXPECT_TRUE(ranksOf(**kernel, 1000));
}

} // namespace
} // namespace tilewright
