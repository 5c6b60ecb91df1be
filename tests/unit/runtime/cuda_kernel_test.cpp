#include <climits>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cuda/cuda_device.h"
#include "tests/support/fake_device.h"
#include "tests/support/fake_driver.h"
#include "tools/bench/allocation_count.h"

namespace tilewright {
namespace {

using namespace cuda;
using test::fakeCubin;
using test::FakeDriver;
using test::FakeLaunch;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

char memory[256];

/// axpy(x: matrix, y: vector, n: index, alpha: f32); a program for 4 rows and 2 columns of x.
Artifact axpyArtifact() {
  Artifact artifact;
  artifact.kernel = "axpy";
  artifact.parameters = {{Parameter::Kind::view, "x", ElementType::bf16, 2, false},
                         {Parameter::Kind::view, "y", ElementType::f32, 1, true},
                         {Parameter::Kind::index, "n", ElementType::f32, 0, false},
                         {Parameter::Kind::float32, "alpha", ElementType::f32, 0, false}};
  artifact.grid = {{0, 0, 4}, {0, 1, 2}};
  artifact.threads = 128;
  artifact.sharedBytes = 98304;
  artifact.binary = fakeCubin("axpy");
  return artifact;
}

std::vector<KernelArgument> axpyArguments() {
  TensorRef x = TensorRef::matrix(memory, ElementType::bf16, 9, 4);
  x.rowStride = 6;
  return {x, TensorRef::vector(memory + 128, ElementType::f32, 9), int64_t(-7), 2.5f};
}

class CudaKernelTest : public ::testing::Test {
protected:
  CudaKernelTest() : device(openDevice()) {
    fake.parameterBytes = {8, 8, 8, 8, 8, 8, 8, 4};
    fake.forgetCalls();
  }
  ~CudaKernelTest() override {
    device.reset();
    EXPECT_EQ(fake.retained, 0);
    EXPECT_TRUE(fake.modules.empty());
    EXPECT_TRUE(fake.links.empty());
    EXPECT_THAT(fake.mistakes, IsEmpty());
  }

  std::unique_ptr<Device> openDevice() {
    return *CudaDevice::open(fake.table(), 0, [](const std::string &) { return std::optional<int>(); });
  }
  Status statusOfLoad(const Artifact &artifact) { return device->load(artifact).status(); }

  FakeDriver fake;
  std::unique_ptr<Device> device;
};

TEST_F(CudaKernelTest, LaunchesLeaveTheHeapAlone) {
  // The fake notes what it is asked for, on the heap; these two are what a launch calls.
  static CUcontext context;
  context = fake.primaryContext();
  Driver driver = fake.table();
  driver.cuCtxGetCurrent = [](CUcontext *current) { return *current = context, CUDA_SUCCESS; };
  driver.cuLaunchKernelEx = [](const CUlaunchConfig *, CUfunction, void **, void **) { return CUDA_SUCCESS; };
  FakeDriver::setCurrent(context);
  {
    auto silent = *CudaDevice::open(driver, 0, [](const std::string &) { return std::optional<int>(); });
    auto kernel = silent->load(axpyArtifact());
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    const std::vector<KernelArgument> arguments = axpyArguments();
    bool good = true;
    const int64_t before = allocationCount();
    for (int i = 0; i < 10; ++i)
      good &= silent->launch(**kernel, arguments, nullptr).ok();
    EXPECT_EQ(allocationCount() - before, 0);
    EXPECT_TRUE(good);
  }
  FakeDriver::setCurrent(nullptr);
}

TEST_F(CudaKernelTest, ArgumentsAreFlattenedInOrder) {
  auto kernel = device->load(axpyArtifact());
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  ASSERT_TRUE(device->launch(**kernel, axpyArguments(), reinterpret_cast<Stream>(5)).ok());

  ASSERT_EQ(fake.launches().size(), 1u);
  const FakeLaunch launch = fake.launches()[0];
  EXPECT_EQ(launch.parameter<void *>(0), memory);
  EXPECT_EQ(launch.parameter<int64_t>(1), 9);
  EXPECT_EQ(launch.parameter<int64_t>(2), 4);
  EXPECT_EQ(launch.parameter<int64_t>(3), 6);
  EXPECT_EQ(launch.parameter<void *>(4), memory + 128);
  EXPECT_EQ(launch.parameter<int64_t>(5), 9);
  EXPECT_EQ(launch.parameter<int64_t>(6), -7);
  EXPECT_EQ(launch.parameter<float>(7), 2.5f);
  const CUlaunchConfig &config = launch.config;
  EXPECT_THAT((std::vector<unsigned>{config.gridDimX, config.gridDimY, config.gridDimZ}),
              ElementsAre(3, 2, 1));
  EXPECT_THAT((std::vector<unsigned>{config.blockDimX, config.blockDimY, config.blockDimZ}),
              ElementsAre(128, 1, 1));
  EXPECT_EQ(config.sharedMemBytes, 98304u);
  EXPECT_EQ(config.hStream, reinterpret_cast<CUstream>(5));
  EXPECT_EQ(config.numAttrs, 0u);
}

TEST_F(CudaKernelTest, KernelsThatWaitThemselvesStartEarly) {
  Artifact artifact = axpyArtifact();
  artifact.startsEarly = true;
  artifact.clusterCtas = 2;
  for (int version : {12030, 12020}) { // drivers before 12.3 could not capture such launches
    fake.version = version;
    device = openDevice();
    auto kernel = device->load(artifact);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    ASSERT_TRUE(device->launch(**kernel, axpyArguments(), nullptr).ok());
    const std::vector<CUlaunchAttribute> attributes = fake.launches().back().attributes;
    ASSERT_EQ(attributes.size(), version == 12030 ? 2u : 1u);
    EXPECT_EQ(attributes[0].id, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    EXPECT_EQ(attributes[0].value.clusterDim.y, 2u);
    if (version != 12030) continue;
    EXPECT_EQ(attributes[1].id, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
    EXPECT_EQ(attributes[1].value.programmaticStreamSerializationAllowed, 1);
  }
}

TEST_F(CudaKernelTest, ALaunchIsOneCallThatWaitsForNothing) {
  auto kernel = device->load(axpyArtifact());
  FakeDriver::setCurrent(fake.primaryContext());
  fake.forgetCalls();
  ASSERT_TRUE(device->launch(**kernel, axpyArguments(), nullptr).ok());
  EXPECT_THAT(fake.calls(), ElementsAre("cuCtxGetCurrent", "cuLaunchKernelEx"));
  FakeDriver::setCurrent(nullptr);
}

TEST_F(CudaKernelTest, AWholeCallMayBeCaptured) {
  auto kernel = device->load(axpyArtifact());
  Stream stream = reinterpret_cast<Stream>(5);
  fake.forgetCalls();
  {
    auto workspace = device->allocate(1024, stream);
    ASSERT_TRUE(device->fill(workspace->data(), 0, 1024, stream).ok());
    for (int i = 0; i < 3; ++i)
      ASSERT_TRUE(device->launch(**kernel, axpyArguments(), stream).ok());
  }
  EXPECT_THAT(fake.calls(), Each(::testing::AnyOf("cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent",
                                                  "cuMemAllocAsync", "cuMemFreeAsync", "cuMemsetD8Async",
                                                  "cuLaunchKernelEx")));
}

TEST_F(CudaKernelTest, LoadingIsNoPartOfACapture) {
  Artifact ptx = axpyArtifact();
  ptx.binary.clear();
  ptx.assembly = "axpy";
  ASSERT_TRUE(device->load(ptx).ok());
  int depth = 0;
  for (const std::string &call : fake.calls()) {
    if (call == "cuThreadExchangeStreamCaptureMode") depth ^= 1;
    if (call == "cuModuleLoadData" || call == "cuLinkCreate" || call == "cuLinkComplete") {
      EXPECT_EQ(depth, 1) << call;
    }
  }
  EXPECT_EQ(depth, 0);
}

TEST_F(CudaKernelTest, AnEmptyGridIsNoLaunch) {
  auto kernel = device->load(axpyArtifact());
  auto arguments = axpyArguments();
  arguments[0] = TensorRef::matrix(nullptr, ElementType::bf16, 0, 4);
  EXPECT_TRUE(device->launch(**kernel, arguments, nullptr).ok());
  EXPECT_TRUE(fake.launches().empty());
}

TEST_F(CudaKernelTest, WhatDoesNotFitIsNamedBeforeTheDriverIsAsked) {
  auto kernel = device->load(axpyArtifact());
  auto arguments = axpyArguments();
  arguments[2] = 1.0f;
  Status status = device->launch(**kernel, arguments, nullptr);
  EXPECT_EQ(status.kind(), StatusKind::user);
  EXPECT_THAT(status.message(), HasSubstr("parameter 'n'"));
  EXPECT_TRUE(fake.launches().empty());
}

TEST_F(CudaKernelTest, TheGridReachesAsFarAsTheHardwareTakes) {
  Artifact artifact = axpyArtifact();
  for (auto [axis, limit] : {std::pair{0, int64_t(INT_MAX)}, {1, int64_t(65535)}, {2, int64_t(65535)}}) {
    artifact.grid = {{1, 0, 100}, {1, 0, 100}, {1, 0, 100}};
    artifact.grid[axis] = {2, 0, 1};
    auto kernel = device->load(artifact);
    auto arguments = axpyArguments();
    arguments[2] = limit;
    EXPECT_TRUE(device->launch(**kernel, arguments, nullptr).ok());
    arguments[2] = limit + 1;
    Status status = device->launch(**kernel, arguments, nullptr);
    EXPECT_EQ(status.kind(), StatusKind::user);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("'axpy'"), HasSubstr("at most " + std::to_string(limit)),
                                        HasSubstr("axis " + std::to_string(axis)),
                                        HasSubstr("found " + std::to_string(limit + 1))));
  }
  EXPECT_EQ(fake.launches()[0].config.gridDimX, unsigned(INT_MAX));
}

TEST_F(CudaKernelTest, AFailedLaunchSaysWhatWasLaunched) {
  auto kernel = device->load(axpyArtifact());
  fake.fail("cuLaunchKernelEx", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_THAT(device->launch(**kernel, axpyArguments(), nullptr).message(),
              AllOf(HasSubstr("kernel 'axpy'"), HasSubstr("3x2x1 programs of 128 threads and 98304 bytes"),
                    HasSubstr("cuLaunchKernelEx failed with CUDA error 701"), HasSubstr("smaller tile")));
}

TEST_F(CudaKernelTest, DynamicSharedMemoryIsAskedForOnce) {
  auto kernel = device->load(axpyArtifact());
  EXPECT_EQ(fake.dynamicSharedAttribute, 98304);
}

TEST_F(CudaKernelTest, KernelsThatTheDeviceCannotHoldAreRefused) {
  Artifact artifact = axpyArtifact();
  artifact.sharedBytes = device->info().sharedBytes;
  EXPECT_TRUE(statusOfLoad(artifact).ok());
  fake.staticShared = 16;
  EXPECT_THAT(statusOfLoad(artifact).message(),
              AllOf(HasSubstr("at most 232448 bytes of shared memory"), HasSubstr("found 232464")));
  fake.maxThreads = 96;
  EXPECT_THAT(statusOfLoad(artifact).message(),
              AllOf(HasSubstr("at most 96 threads with 64 registers each"), HasSubstr("found 128")));
}

TEST_F(CudaKernelTest, ArtifactsThatCannotBeAreRefused) {
  for (int threads : {0, -32, 1025}) {
    Artifact artifact = axpyArtifact();
    artifact.threads = threads;
    EXPECT_EQ(statusOfLoad(artifact).kind(), StatusKind::internal);
  }
  Artifact artifact = axpyArtifact();
  artifact.sharedBytes = int64_t(1) << 40;
  EXPECT_EQ(statusOfLoad(artifact).kind(), StatusKind::internal);
  artifact = axpyArtifact();
  artifact.parameters.resize(600, artifact.parameters[0]);
  EXPECT_THAT(statusOfLoad(artifact).message(), HasSubstr("at most 512 8-byte parameters"));
}

TEST_F(CudaKernelTest, BinariesOfAnotherKindNeverReachTheDriver) {
  for (const std::string &binary : {std::string("junk"), std::string(200, 'x'), fakeCubin("").substr(0, 60),
                                    fakeCubin("x").replace(18, 1, "\x3e")}) {
    Artifact artifact = axpyArtifact();
    artifact.binary = binary;
    EXPECT_THAT(statusOfLoad(artifact).message(), HasSubstr("expected its binary to be a cubin"));
  }
  EXPECT_THAT(fake.calls(), IsEmpty());
}

TEST_F(CudaKernelTest, WhateverFailsWhileLoadingIsReportedAndReleased) {
  for (const char *function : {"cuModuleLoadData", "cuModuleGetFunction", "cuFuncGetAttribute",
                               "cuFuncSetAttribute", "cuCtxGetCurrent"}) {
    fake.fail(function, CUDA_ERROR_NO_BINARY_FOR_GPU);
    EXPECT_THAT(statusOfLoad(axpyArtifact()).message(), HasSubstr("CUDA error 209")) << function;
    fake.fail(function, CUDA_SUCCESS);
    EXPECT_TRUE(fake.modules.empty());
  }
}

TEST_F(CudaKernelTest, AssemblingMakesTheBinaryAndKeepsTheAssembly) {
  Artifact artifact = axpyArtifact();
  artifact.binary.clear();
  artifact.assembly = "some ptx";
  ASSERT_TRUE(device->assemble(artifact).ok());
  EXPECT_EQ(artifact.binary, fakeCubin(std::string("some ptx") + '\0'));
  EXPECT_EQ(artifact.assembly, "some ptx");
  fake.forgetCalls();
  ASSERT_TRUE(device->assemble(artifact).ok()); // nothing to do
  EXPECT_THAT(fake.calls(), IsEmpty());
}

TEST_F(CudaKernelTest, WhatTheAssemblerSaysIsInTheError) {
  Artifact artifact = axpyArtifact();
  artifact.binary.clear();
  artifact.assembly = "nonsense";
  Status status = device->assemble(artifact);
  EXPECT_EQ(status.kind(), StatusKind::compile);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("'axpy'"), HasSubstr("line 3; error: nonsense"), HasSubstr("CUDA error 218")));
  EXPECT_EQ(device->load(artifact).status().kind(), StatusKind::compile);

  artifact.assembly = "fine";
  fake.fail("cuLinkComplete", CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
  status = device->assemble(artifact);
  EXPECT_EQ(status.kind(), StatusKind::device);
  EXPECT_EQ(status.driverNumber(), CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("'axpy'"), HasSubstr("libnvidia-ptxjitcompiler.so.1")));
}

TEST_F(CudaKernelTest, KernelsOfOtherDevicesAreRefused) {
  test::FakeDevice other;
  auto kernel = other.load(axpyArtifact());
  EXPECT_EQ(device->launch(**kernel, axpyArguments(), nullptr).kind(), StatusKind::user);

  auto second = openDevice();
  auto theirs = second->load(axpyArtifact());
  EXPECT_THAT(device->launch(**theirs, axpyArguments(), nullptr).message(), HasSubstr("another device"));
}

TEST_F(CudaKernelTest, KernelsMayOutliveTheirDevice) {
  auto kernel = device->load(axpyArtifact());
  device.reset();
  EXPECT_EQ(fake.modules.size(), 1u);
  EXPECT_EQ(fake.retained, 1);
  kernel = userError("gone");
  EXPECT_TRUE(fake.modules.empty());
}

TEST_F(CudaKernelTest, AnyThreadMayLaunch) {
  auto kernel = device->load(axpyArtifact());
  constexpr int kThreads = 4, kLaunches = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      auto arguments = axpyArguments();
      arguments[2] = int64_t(t);
      for (int i = 0; i < kLaunches; ++i) {
        auto buffer = device->allocate(64, reinterpret_cast<Stream>(intptr_t(t + 1)));
        EXPECT_TRUE(buffer.ok());
        EXPECT_TRUE(device->launch(**kernel, arguments, reinterpret_cast<Stream>(intptr_t(t + 1))).ok());
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  ASSERT_EQ(fake.launches().size(), std::size_t(kThreads * kLaunches));
  for (const FakeLaunch &launch : fake.launches())
    EXPECT_EQ(launch.parameter<int64_t>(6) + 1, reinterpret_cast<intptr_t>(launch.config.hStream));
  EXPECT_TRUE(fake.memory.empty());
}

} // namespace
} // namespace tilewright
