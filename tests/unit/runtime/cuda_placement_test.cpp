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
using ::testing::Each;
using ::testing::IsEmpty;

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

class CudaPlacement : public ::testing::Test {
protected:
  CudaPlacement()
      : device(*CudaDevice::open(fake.table(), 0, [](const std::string &) { return std::optional<int>(); })) {
    fake.onLaunch = Scheduler();
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
    EXPECT_TRUE(fake.modules.empty());
    EXPECT_THAT(fake.mistakes, IsEmpty());
  }

  /// What a launch of so many programs is told.
  const int32_t *ranksOf(const LoadedKernel &kernel, int64_t programs) {
    fake.onLaunch = nullptr;
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

TEST_F(CudaPlacement, IsLookedForOnce) {
  ASSERT_TRUE(device->load(artifact).ok());
  const std::size_t launches = fake.launches().size();
  EXPECT_GT(launches, 0u);
  ASSERT_TRUE(device->load(artifact).ok());
  EXPECT_EQ(fake.launches().size(), launches);
}

TEST_F(CudaPlacement, KernelsThatAskForNoneCauseNone) {
  artifact.ranksClusters = false;
  ASSERT_TRUE(device->load(artifact).ok());
  EXPECT_TRUE(fake.launches().empty());
}

TEST_F(CudaPlacement, FewerClustersKeepTheirNumbers) {
  auto kernel = device->load(artifact);
  EXPECT_FALSE(ranksOf(**kernel, 65));
  EXPECT_TRUE(ranksOf(**kernel, 66));
}

TEST_F(CudaPlacement, OthersWorkOnTheDeviceLeavesNumbers) {
  fake.onLaunch = [](const CUlaunchConfig &config, void **parameters) {
    for (unsigned i = 0; i < config.gridDimX; ++i)
      (*static_cast<int32_t **>(parameters[0]))[i] = static_cast<int32_t>(i % 100);
  };
  auto kernel = device->load(artifact);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  EXPECT_FALSE(ranksOf(**kernel, 1000));
}

TEST_F(CudaPlacement, ADriverThatRefusesLeavesNumbers) {
  for (const char *call : {"cuMemHostAlloc", "cuLaunchKernelEx", "cuStreamSynchronize", "cuMemAllocAsync"}) {
    device = *CudaDevice::open(fake.table(), 0, [](const std::string &) { return std::optional<int>(); });
    fake.fail(call, CUDA_ERROR_INVALID_VALUE);
    auto kernel = device->load(artifact);
    fake.fail(call, CUDA_SUCCESS);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    EXPECT_FALSE(ranksOf(**kernel, 1000)) << call;
    fake.onLaunch = Scheduler();
  }
}

// A stream that the default stream waits for.
TEST_F(CudaPlacement, IsNotLookedForInACaptureThatForbidsIt) {
  fake.captured = reinterpret_cast<CUstream>(3);
  auto captured = device->load(artifact);
  fake.captured.reset();
  EXPECT_TRUE(fake.launches().empty());
  auto later = device->load(artifact);
  EXPECT_TRUE(ranksOf(**later, 1000));
  EXPECT_FALSE(ranksOf(**captured, 1000));
}

TEST_F(CudaPlacement, IsNoPartOfACapture) {
  fake.captured = reinterpret_cast<CUstream>(3);
  fake.capturedBlocks = false;
  auto kernel = device->load(artifact);
  EXPECT_THAT(fake.mistakes, IsEmpty());
  fake.captured.reset();
  EXPECT_TRUE(ranksOf(**kernel, 1000));
}

} // namespace
} // namespace tilewright
