// What `Device::launch` costs over the driver's own cuLaunchKernel, and by itself.

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "runtime/cuda/cuda_device.h"
#include "tests/gpu/ptx_kernels.h"
#include "tests/support/fake_driver.h"
#include "tests/support/gpu.h"

namespace tilewright {
namespace {

using namespace cuda;
using test::FakeDriver;

constexpr int kLaunches = 400; ///< fewer than the driver queues before it makes the caller wait
constexpr int kRounds = 41;
constexpr double kLimitNanoseconds = 1000;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

template <typename Work> double nanosecondsEach(const Work &work) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kLaunches; ++i)
    work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() /
         kLaunches;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<KernelArgument> nopArguments(void *memory) {
  const TensorRef matrix = TensorRef::matrix(memory, ElementType::f32, 2, 2);
  const TensorRef vector = TensorRef::vector(memory, ElementType::f32, 4);
  return {matrix, matrix, matrix, matrix, vector, vector, int64_t(1), int64_t(2), 1.0f, 2.0f};
}

class LaunchOverheadTest : public test::GpuTest {};

TEST_F(LaunchOverheadTest, IsAtMostAMicrosecondOverTheDriver) {
  test::GpuStream stream;
  Artifact artifact = test::nopArtifact();
  ASSERT_TRUE(device().assemble(artifact).ok());
  auto kernel = device().load(artifact);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  Buffer memory = *device().allocate(64, stream.get());
  const std::vector<KernelArgument> arguments = nopArguments(memory.data());

  using Launch = int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,
                         void **, void **);
  auto launchRaw = reinterpret_cast<Launch>(test::cudaFunction("cuLaunchKernel"));
  void *module = nullptr, *function = nullptr;
  reinterpret_cast<int (*)(void **, const void *)>(test::cudaFunction("cuModuleLoadData"))(
      &module, artifact.binary.data());
  reinterpret_cast<int (*)(void **, void *, const char *)>(test::cudaFunction("cuModuleGetFunction"))(
      &function, module, "nop");
  int64_t slots[24] = {};
  void *addresses[24];
  for (int i = 0; i < 24; ++i)
    addresses[i] = &slots[i];

  std::vector<double> raw, ours, differences;
  int failures = 0;
  for (int round = 0; round < kRounds; ++round) {
    raw.push_back(nanosecondsEach([&] {
      failures += launchRaw(function, 2, 2, 1, 32, 1, 1, 0, stream.get(), addresses, nullptr) != 0;
    }));
    ASSERT_TRUE(device().synchronize(stream.get()).ok());
    ours.push_back(
        nanosecondsEach([&] { failures += !device().launch(**kernel, arguments, stream.get()).ok(); }));
    ASSERT_TRUE(device().synchronize(stream.get()).ok());
    differences.push_back(ours.back() - raw.back());
  }
  EXPECT_EQ(failures, 0);
  std::printf("cuLaunchKernel %.0f ns, Device::launch %.0f ns, overhead %.0f ns (median of %d rounds of %d "
              "launches)\n",
              median(raw), median(ours), median(differences), kRounds, kLaunches);
  EXPECT_LE(median(differences), kLimitNanoseconds);
  memory = Buffer(); // before its stream
}

/// All of a launch but the driver's part, on a machine of any kind.
TEST(LaunchCost, IsAtMostAMicrosecondWithoutTheDriver) {
  if (kSanitized) GTEST_SKIP() << "times mean nothing under a sanitizer";
  FakeDriver fake;
  Driver driver = fake.table();
  static CUcontext context;
  context = fake.primaryContext();
  FakeDriver::setCurrent(context);
  driver.cuCtxGetCurrent = [](CUcontext *current) { return *current = context, CUDA_SUCCESS; };
  driver.cuLaunchKernelEx = [](const CUlaunchConfig *, CUfunction, void **, void **) { return CUDA_SUCCESS; };
  auto device = *CudaDevice::open(driver, 0, [](const std::string &) { return std::optional<int>(); });
  Artifact artifact = test::nopArtifact();
  artifact.binary = test::fakeCubin("nop");
  auto kernel = *device->load(artifact);
  alignas(16) char memory[64];
  const std::vector<KernelArgument> arguments = nopArguments(memory);

  std::vector<double> rounds;
  int failures = 0;
  for (int round = 0; round < kRounds; ++round)
    rounds.push_back(nanosecondsEach([&] { failures += !device->launch(*kernel, arguments, nullptr).ok(); }));
  EXPECT_EQ(failures, 0);
  std::printf("Device::launch without the driver %.0f ns\n", median(rounds));
  EXPECT_LE(median(rounds), kLimitNanoseconds);
}

} // namespace
} // namespace tilewright
