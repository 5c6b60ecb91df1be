#include "runtime/cuda/cuda_device.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>

#include "runtime/runtime.h"
#include "tests/gpu/ptx_kernels.h"
#include "tests/support/gpu.h"
#include "tests/support/temporary_folder.h"

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

class CudaDeviceTest : public test::GpuTest {
protected:
  std::unique_ptr<LoadedKernel> load(const Artifact &artifact) {
    auto kernel = device().load(artifact);
    EXPECT_TRUE(kernel.ok()) << kernel.status().message();
    return *std::move(kernel);
  }

  Buffer upload(const void *values, std::size_t bytes, Stream stream = nullptr) {
    auto buffer = device().allocate(bytes, stream);
    EXPECT_TRUE(buffer.ok()) << buffer.status().message();
    expectOk(device().copyToDevice(buffer->data(), values, bytes, stream));
    return *buffer;
  }
  template <typename T> Buffer upload(const std::vector<T> &values, Stream stream = nullptr) {
    return upload(values.data(), values.size() * sizeof(T), stream);
  }

  template <typename T> std::vector<T> download(const Buffer &buffer, Stream stream = nullptr) {
    std::vector<T> values(buffer.bytes() / sizeof(T));
    expectOk(device().copyToHost(values.data(), buffer.data(), buffer.bytes(), stream));
    return values;
  }

  static void expectOk(const Status &status) { EXPECT_TRUE(status.ok()) << status.message(); }
};

TEST_F(CudaDeviceTest, TellsItsClock) {
  const double megahertz = device().clockMegahertz();
  if (megahertz == 0) GTEST_SKIP() << "the management library does not tell";
  std::printf("%.0f MHz\n", megahertz);
  EXPECT_GT(megahertz, 50);
  EXPECT_LT(megahertz, 5000);
}

TEST_F(CudaDeviceTest, SaysWhatItIs) {
  const DeviceInfo &info = device().info();
  std::printf("%s; %s; assembler %s; %lld MiB; %lld bytes of shared memory; fingerprint %s\n",
              info.name.c_str(), device().target().str().c_str(), info.assembler.c_str(),
              static_cast<long long>(info.memoryBytes >> 20), static_cast<long long>(info.sharedBytes),
              info.fingerprint.c_str());
  EXPECT_GT(info.units, 0);
  EXPECT_GT(device().lastCacheBytes(), 1 << 20);
  EXPECT_GE(info.sharedBytes, 99 * 1024);
  EXPECT_GT(info.memoryBytes, int64_t(1) << 30);
  EXPECT_EQ((*openCudaDevice(0))->info().fingerprint, info.fingerprint);
  EXPECT_THAT(availableDevices(), ::testing::Contains("cuda:0"));
  auto runtime = openDevice("cuda");
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  EXPECT_THAT(openDevice("cuda:999").status().message(), HasSubstr("expected a CUDA device with index 999"));
}

TEST_F(CudaDeviceTest, CopiesAndFills) {
  for (std::size_t bytes : {1ul, 3ul, 4096ul, 70000003ul}) {
    std::vector<unsigned char> values(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      values[i] = static_cast<unsigned char>(i * 31 + 7);
    Buffer buffer = upload(values);
    EXPECT_TRUE(download<unsigned char>(buffer) == values);
    expectOk(device().fill(buffer.data(), 0xA5, bytes, nullptr));
    EXPECT_TRUE(download<unsigned char>(buffer) == std::vector<unsigned char>(bytes, 0xA5));
  }
}

TEST_F(CudaDeviceTest, KernelsGetTheirArguments) {
  constexpr int64_t kRows = 5, kColumns = 300, kStride = 320;
  std::vector<float> x(kRows * kStride), y(kRows), expected(kRows * kStride, 0.0f);
  std::iota(x.begin(), x.end(), 1.0f);
  std::iota(y.begin(), y.end(), -2.0f);
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kColumns; ++c)
      expected[r * kStride + c] = 0.5f * x[r * kStride + c] * y[r] - 11;
  Buffer xOnDevice = upload(x), yOnDevice = upload(y),
         out = upload(std::vector<float>(kRows * kStride, 0.0f));
  TensorRef xRef = TensorRef::matrix(xOnDevice.data(), ElementType::f32, kRows, kColumns);
  TensorRef outRef = TensorRef::matrix(out.data(), ElementType::f32, kRows, kColumns);
  xRef.rowStride = outRef.rowStride = kStride;
  auto kernel = load(test::scaleRowsArtifact());
  expectOk(device().launch(
      *kernel,
      {xRef, TensorRef::vector(yOnDevice.data(), ElementType::f32, kRows), outRef, int64_t(-11), 0.5f},
      nullptr));
  EXPECT_EQ(download<float>(out), expected);
}

TEST_F(CudaDeviceTest, EveryProgramRunsOnce) {
  Buffer out = upload(std::vector<int>(40000, 0));
  auto kernel = load(test::countProgramsArtifact());
  expectOk(device().launch(
      *kernel, {TensorRef::vector(out.data(), ElementType::i32, 40000), int64_t(7), int64_t(5), int64_t(3)},
      nullptr));
  const std::vector<int> counts = download<int>(out);
  for (int i = 0; i < 40000; ++i)
    ASSERT_EQ(counts[i], i % 100 < 7 && i / 100 % 100 < 5 && i / 10000 < 3) << i;
}

TEST_F(CudaDeviceTest, MoreSharedMemoryThanTheDefault) {
  Buffer out = upload(std::vector<float>(25600, -1.0f));
  auto kernel = load(test::reverseArtifact());
  expectOk(device().launch(*kernel, {TensorRef::vector(out.data(), ElementType::f32, 25600)}, nullptr));
  const std::vector<float> values = download<float>(out);
  for (int i = 0; i < 25600; ++i)
    ASSERT_EQ(values[i], 25599 - i);

  Artifact tooMuch = test::reverseArtifact();
  tooMuch.sharedBytes = device().info().sharedBytes;
  EXPECT_TRUE(device().load(tooMuch).ok());
  tooMuch.sharedBytes += 1;
  EXPECT_THAT(device().load(tooMuch).status().message(), HasSubstr("bytes of shared memory on this device"));
}

TEST_F(CudaDeviceTest, BoxesComeByTmaIntoAPersistentKernel) {
  if (device().target().arch != "sm_90a") GTEST_SKIP() << "needs sm_90a, found " << device().target().arch;
  auto kernel = load(test::copyBoxesArtifact());
  // One box; ragged ends; more boxes than any GPU has multiprocessors; rows that lie apart.
  for (auto [rows, columns, stride] :
       {std::array<int64_t, 3>{8, 32, 32}, {1, 4, 3}, {13, 70, 72}, {1003, 333, 336}, {64, 4, 96}}) {
    std::vector<float> x(rows * stride + columns);
    std::iota(x.begin(), x.end(), 1.0f);
    Buffer xOnDevice = upload(x);
    TensorRef xRef = TensorRef::matrix(xOnDevice.data(), ElementType::f32, rows, columns);
    xRef.rowStride = stride;
    const int64_t outRows = (rows + 7) / 8 * 8, outColumns = (columns + 31) / 32 * 32;
    Buffer out = upload(std::vector<float>(outRows * outColumns, -1.0f));
    expectOk(device().launch(
        *kernel, {xRef, TensorRef::matrix(out.data(), ElementType::f32, outRows, outColumns)}, nullptr));
    const std::vector<float> values = download<float>(out);
    for (int64_t r = 0; r < outRows; ++r)
      for (int64_t c = 0; c < outColumns; ++c)
        ASSERT_EQ(values[r * outColumns + c], r < rows && c < columns ? x[r * stride + c] : 0.0f)
            << rows << "x" << columns << ": " << r << ", " << c;
  }
}

TEST_F(CudaDeviceTest, ClustersHaveARankEach) {
  if (device().target().arch != "sm_90a") GTEST_SKIP() << "needs sm_90a, found " << device().target().arch;
  const int clusters = device().info().units / 2;
  auto kernel = load(test::noteRanksArtifact());
  for (int launch = 0; launch < 3; ++launch) {
    Buffer seen = upload(std::vector<int>(clusters, 0));
    expectOk(device().launch(
        *kernel, {TensorRef::vector(seen.data(), ElementType::i32, clusters), int64_t(clusters) * 10},
        nullptr));
    const std::vector<int> places = download<int>(seen);
    EXPECT_THAT(places, Each(::testing::Gt(0)));
    std::printf("multiprocessors by rank:");
    for (const int place : places)
      std::printf(" %d", place - 1);
    std::printf("\n");
  }
}

TEST_F(CudaDeviceTest, TheDriverTakesTheMapOfAnEmptyTensor) {
  if (device().target().arch != "sm_90a") GTEST_SKIP() << "needs sm_90a, found " << device().target().arch;
  Artifact artifact = test::copyBoxesArtifact();
  artifact.grid = {{1, 0, 1}}; // a program, although x has no box: it finds nothing to do
  auto kernel = load(artifact);
  Buffer out = upload(std::vector<float>(32, -1.0f));
  for (int64_t rows : {0, 5})
    expectOk(device().launch(*kernel,
                             {TensorRef::matrix(nullptr, ElementType::f32, rows, rows ? 0 : 32),
                              TensorRef::matrix(out.data(), ElementType::f32, 1, 32)},
                             nullptr));
  EXPECT_THAT(download<float>(out), Each(-1.0f));
}

TEST_F(CudaDeviceTest, TheAssembledBinaryIsAllThatLoadingNeeds) {
  Artifact artifact = test::countProgramsArtifact();
  expectOk(device().assemble(artifact));
  EXPECT_GT(artifact.binary.size(), 64u);
  artifact.assembly.clear();
  auto kernel = load(artifact);
  Buffer out = upload(std::vector<int>(4, 0));
  expectOk(device().launch(
      *kernel, {TensorRef::vector(out.data(), ElementType::i32, 4), int64_t(4), int64_t(1), int64_t(1)},
      nullptr));
  EXPECT_THAT(download<int>(out), Each(1));
}

TEST_F(CudaDeviceTest, WhatTheAssemblerSaysIsInTheError) {
  Artifact artifact = test::nopArtifact();
  artifact.assembly.replace(artifact.assembly.find("ret;"), 4, "nonsense %r1;");
  Status status = device().assemble(artifact);
  std::printf("%s\n", status.message().c_str());
  EXPECT_EQ(status.kind(), StatusKind::compile);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("'nop'"), HasSubstr("line 6"), HasSubstr("nonsense")));
}

TEST_F(CudaDeviceTest, DamagedBinariesAreRefused) {
  Artifact artifact = test::nopArtifact();
  expectOk(device().assemble(artifact));
  Artifact renamed = artifact;
  renamed.kernel = "other";
  EXPECT_THAT(device().load(renamed).status().message(), HasSubstr("cuModuleGetFunction failed"));
  artifact.binary = std::string(4096, 'x');
  EXPECT_THAT(device().load(artifact).status().message(), HasSubstr("to be a cubin"));
}

TEST_F(CudaDeviceTest, ACallIsCapturedAndReplayedBitEqual) {
  constexpr int64_t kRows = 64, kColumns = 1000;
  std::vector<float> x(kRows * kColumns), y(kRows);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = 1.0f / static_cast<float>(i + 1);
  std::iota(y.begin(), y.end(), 0.25f);
  test::GpuStream stream;
  Buffer xOnDevice = upload(x, stream.get()), yOnDevice = upload(y, stream.get());
  Buffer out = upload(x, stream.get());
  std::unique_ptr<LoadedKernel> kernel;
  const TensorRef yRef = TensorRef::vector(yOnDevice.data(), ElementType::f32, kRows);
  auto matrix = [](const Buffer &buffer) {
    return TensorRef::matrix(buffer.data(), ElementType::f32, kRows, kColumns);
  };
  // Two launches by way of a workspace of the call's own; the kernel is loaded by whoever comes first.
  auto work = [&]() -> Status {
    if (!kernel) kernel = load(test::scaleRowsArtifact());
    TW_ASSIGN_OR_RETURN(Buffer workspace, device().allocate(x.size() * sizeof(float), stream.get()));
    TW_RETURN_IF_ERROR(device().fill(workspace.data(), 0xFF, workspace.bytes(), stream.get()));
    TW_RETURN_IF_ERROR(device().launch(
        *kernel, {matrix(xOnDevice), yRef, matrix(workspace), int64_t(3), 0.7f}, stream.get()));
    return device().launch(*kernel, {matrix(workspace), yRef, matrix(out), int64_t(0), 1.3f}, stream.get());
  };
  auto graph = test::CapturedGraph::capture(stream.get(), work);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  expectOk(work());
  const std::vector<float> eager = download<float>(out, stream.get());
  EXPECT_NE(eager, x);
  for (int replay = 0; replay < 3; ++replay) {
    expectOk(device().fill(out.data(), 0xFF, out.bytes(), stream.get()));
    expectOk((*graph)->launch(stream.get()));
    const std::vector<float> replayed = download<float>(out, stream.get());
    EXPECT_EQ(std::memcmp(replayed.data(), eager.data(), out.bytes()), 0);
  }
}

TEST_F(CudaDeviceTest, WaitingInACaptureSaysWhatToDo) {
  test::GpuStream stream;
  auto graph = test::CapturedGraph::capture(stream.get(), [&] { return device().synchronize(stream.get()); });
  std::printf("%s\n", graph.status().message().c_str());
  EXPECT_THAT(graph.status().message(), HasSubstr("while a stream is captured"));
}

TEST_F(CudaDeviceTest, MemoryIsReusedInTheStreamsOrder) {
  test::GpuStream stream;
  auto wait = load(test::waitArtifact());
  const std::size_t bytes = std::size_t(64) << 20;
  expectOk(device().launch(*wait, {int64_t(2000000)}, stream.get()));
  void *first = device().allocate(bytes, stream.get())->data();
  // Freed and taken again while the stream is still busy.
  EXPECT_EQ(device().allocate(bytes, stream.get())->data(), first);
  expectOk(device().synchronize(stream.get()));
}

TEST_F(CudaDeviceTest, TimesWhatTheDeviceDoes) {
  test::GpuStream stream;
  auto wait = load(test::waitArtifact());
  for (int64_t nanoseconds : {500000, 3000000}) {
    auto milliseconds = device().time(stream.get(), [&]() -> Status {
      TW_RETURN_IF_ERROR(device().launch(*wait, {nanoseconds}, stream.get()));
      return device().launch(*wait, {nanoseconds}, stream.get());
    });
    ASSERT_TRUE(milliseconds.ok()) << milliseconds.status().message();
    EXPECT_NEAR(*milliseconds, 2e-6 * nanoseconds, 0.3);
  }
}

TEST_F(CudaDeviceTest, TooLittleMemorySaysHowMuchThereIs) {
  Status status = device().allocate(std::size_t(1) << 45, nullptr).status();
  std::printf("%s\n", status.message().c_str());
  EXPECT_EQ(status.kind(), StatusKind::memory);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("32 TiB (35184372088832 bytes) were asked for"), HasSubstr("free of")));
  EXPECT_TRUE(device().allocate(100, nullptr).ok()); // the next call is not affected
}

TEST_F(CudaDeviceTest, MemoryAndKernelsMayOutliveTheirDevice) {
  auto second = *openCudaDevice(0);
  auto kernel = *second->load(test::nopArtifact());
  Buffer buffer = *second->allocate(100, nullptr);
  second.reset();
  kernel.reset();
  buffer = Buffer();
  expectOk(device().synchronize(nullptr));
}

TEST_F(CudaDeviceTest, ThreadsLaunchSideBySide) {
  constexpr int kThreads = 4, kLaunches = 50;
  auto kernel = load(test::countProgramsArtifact());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      test::GpuStream stream;
      Buffer out = upload(std::vector<int>(1000, 0), stream.get());
      for (int i = 0; i < kLaunches; ++i)
        expectOk(device().launch(
            *kernel,
            {TensorRef::vector(out.data(), ElementType::i32, 1000), int64_t(100), int64_t(10), int64_t(1)},
            stream.get()));
      EXPECT_THAT(download<int>(out, stream.get()), Each(kLaunches));
      out = Buffer(); // before its stream
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(CudaDeviceTest, TheCacheKeepsTheCubin) {
  test::TemporaryFolder folder;
  Environment environment;
  environment.cacheDir = folder.path();
  const KernelSource source = {[] { return StatusOr<std::string>("body"); },
                               [] { return StatusOr<Artifact>(test::reverseArtifact()); }};
  for (int64_t fromDisk : {0, 1}) {
    Runtime runtime(*openCudaDevice(0), environment);
    auto kernel = runtime.kernel({"reverse", "", ""}, source);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    EXPECT_EQ(runtime.counters().diskHits, fromDisk);
    std::printf("compiled in %.2f ms, loaded from disk in %.2f ms\n", runtime.counters().compileMilliseconds,
                runtime.counters().diskMilliseconds);
    Buffer out = upload(std::vector<float>(25600, -1.0f));
    expectOk(
        runtime.device().launch(**kernel, {TensorRef::vector(out.data(), ElementType::f32, 25600)}, nullptr));
    EXPECT_EQ(download<float>(out)[0], 25599.0f);
  }
}

/// In a process of its own: the fault takes the device from the whole process.
class CudaFaultDeathTest : public ::testing::Test {};

void writeWhereNobodyMay() {
  auto device = openCudaDevice(0);
  if (!device.ok()) std::exit(3);
  auto kernel = (*device)->load(test::spoilArtifact());
  Status launched = (*device)->launch(**kernel, {int64_t(1) << 50}, nullptr);
  Status found = (*device)->synchronize(nullptr);
  Status after = (*device)->allocate(100, nullptr).status();
  std::fprintf(stderr, "%s\nthen: %s\n", found.message().c_str(), after.message().c_str());
  std::exit(launched.ok() && !found.ok() && !after.ok() ? 0 : 1);
}

TEST_F(CudaFaultDeathTest, AKernelsFaultIsReportedWhereItIsWaitedFor) {
  if (cudaDeviceCount() == 0) GTEST_SKIP() << "there is no CUDA device";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(writeWhereNobodyMay(), ::testing::ExitedWithCode(0), "CUDA error 700.*compute-sanitizer");
}

} // namespace
} // namespace tilewright
