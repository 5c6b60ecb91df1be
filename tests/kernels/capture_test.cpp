// Losses whose stream is being captured, with a driver that is a fake: what is not allowed then is a mistake.
// tests/gpu/loss_graph_test.cpp has the results.

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cuda/cuda_device.h"
#include "runtime/runtime.h"
#include "tests/support/fake_driver.h"
#include "tests/support/loss_on_stream.h"
#include "tests/support/temporary_folder.h"

namespace tilewright::test {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Not;

std::optional<int> noPowerLimit(const std::string &) { return std::nullopt; }

/// By whether the default stream waits for the captured one.
class Capture : public testing::TestWithParam<bool> {
protected:
  Capture() {
    fake.capturedBlocks = GetParam();
    Environment environment;
    environment.cacheDir = folder.path();
    environment.autotune = AutotuneMode::write; // tuning waits, so it must not begin
    runtime = std::make_unique<Runtime>(*CudaDevice::open(fake.table(), 0, noPowerLimit), environment);
  }
  Device &device() { return runtime->device(); }

  /// Once with kernels that are not even compiled, then with all of them at hand.
  template <typename Loss> void checkCapture(const Loss &loss) {
    const Stream stream = reinterpret_cast<Stream>(3);
    fake.captured = static_cast<cuda::CUstream>(stream);
    const std::size_t before = launchesOn(stream);
    const Status cold = loss.run(*runtime, stream);
    EXPECT_TRUE(cold.ok()) << cold.message();
    const std::size_t launches = launchesOn(stream) - before;
    EXPECT_GT(launches, 0u);

    fake.forgetCalls();
    const Status warm = loss.run(*runtime, stream);
    EXPECT_TRUE(warm.ok()) << warm.message();
    EXPECT_EQ(launchesOn(stream), before + 2 * launches);
    fake.captured.reset();
    EXPECT_THAT(fake.mistakes, IsEmpty());

    const std::set<std::string> known = {
        "cuCtxGetCurrent",        "cuCtxPushCurrent",      "cuCtxPopCurrent",  "cuMemAllocAsync",
        "cuMemFreeAsync",         "cuMemsetD8Async",       "cuLaunchKernelEx", "cuStreamIsCapturing",
        "cuTensorMapEncodeTiled", "cuPointerGetAttributes"};
    for (const std::string &call : fake.calls())
      EXPECT_EQ(known.count(call), 1u) << call;
  }

  std::size_t launchesOn(Stream stream) const {
    std::size_t count = 0;
    for (const FakeLaunch &launch : fake.launches())
      count += launch.config.hStream == stream;
    return count;
  }

  FakeDriver fake;
  TemporaryFolder folder;
  std::unique_ptr<Runtime> runtime;
};

TEST_P(Capture, LinearCrossEntropyInSeveralChunks) {
  const LossCase data = makeCase(DataKind::random, 500, 48, 700, ElementType::bf16);
  checkCapture(LinearOnStream(device(), data, 900 << 10));
}

TEST_P(Capture, CrossEntropyOverLogits) {
  checkCapture(LogitsOnStream(device(), makeCase(DataKind::random, 30, 700, 700, ElementType::bf16)));
}

// The caller has all memory, so nothing is allocated in the capture.
TEST_P(Capture, PreparedCalls) {
  const LossCase data = makeCase(DataKind::random, 120, 48, 300, ElementType::bf16);
  const ScaledOnStream scaled(*runtime, data);
  checkCapture(scaled);
  EXPECT_THAT(fake.calls(), Not(Contains("cuMemAllocAsync")));
  const BackwardOnStream backward(*runtime, data);
  checkCapture(backward);
  EXPECT_THAT(fake.calls(), Not(Contains("cuMemAllocAsync")));
}

INSTANTIATE_TEST_SUITE_P(Streams, Capture, testing::Bool(),
                         [](const auto &info) { return info.param ? "Blocking" : "NonBlocking"; });

} // namespace
} // namespace tilewright::test
