// The caller's memory on a GPU, with a driver that is a fake: an address that kernels do not reach, and
// outputs that overlap other tensors, are user errors before anything is launched.

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/examples/examples.h"
#include "kernels/gradient_scaling.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/runtime.h"
#include "tests/support/fake_driver.h"
#include "tests/support/loss_on_stream.h"

namespace tilewright::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::optional<int> noPowerLimit(const std::string &) { return std::nullopt; }

class CallerMemory : public ::testing::Test {
protected:
  CallerMemory() : runtime(*CudaDevice::open(fake.table(), 0, noPowerLimit), Environment()) {}
  Device &device() { return runtime.device(); }

  /// A user error in which `name` has memory of the host, and no launch.
  void expectHostMemory(const Status &status, const std::string &name) {
    EXPECT_EQ(status.kind(), StatusKind::user) << name;
    EXPECT_THAT(status.message(), AllOf(HasSubstr(name), HasSubstr("found host memory")));
    EXPECT_TRUE(fake.launches().empty()) << name;
  }
  std::size_t addressQuestions() const {
    const std::vector<std::string> calls = fake.calls();
    return std::count(calls.begin(), calls.end(), "cuPointerGetAttributes");
  }

  FakeDriver fake;
  Runtime runtime;
};

class OfAPreparedCall : public CallerMemory {
protected:
  OfAPreparedCall()
      : loss(device(), makeCase(DataKind::random, 40, 32, 200, ElementType::bf16)),
        call(*PreparedLinearCrossEntropy::prepare(runtime, loss.tensors(), loss.options())),
        workspace(*device().allocate(call.workspaceBytes(), nullptr)) {}
  CallMemory memory() const { return {workspace.data(), call.workspaceBytes(), {}}; }

  alignas(256) char host[1 << 20] = {};
  LinearOnStream loss;
  PreparedLinearCrossEntropy call;
  Buffer workspace;
};

TEST_F(OfAPreparedCall, TensorsOfTheHostAreRefused) {
  LinearCrossEntropyTensors tensors = loss.tensors();
  tensors.weight.data = host;
  expectHostMemory(call.run(tensors, memory(), nullptr), "weight");
}

TEST_F(OfAPreparedCall, AWorkspaceOfTheHostIsRefused) {
  ASSERT_LE(call.workspaceBytes(), static_cast<int64_t>(sizeof host));
  expectHostMemory(call.run(loss.tensors(), {host, call.workspaceBytes(), {}}, nullptr), "workspace");
}

TEST_F(OfAPreparedCall, AWorkspaceOfAnotherGpuIsRefused) {
  fake.pointers = {{host, {cuda::CU_MEMORYTYPE_DEVICE, 1}}};
  const Status status = call.run(loss.tensors(), {host, call.workspaceBytes(), {}}, nullptr);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("workspace"), HasSubstr("memory of device 1")));
}

TEST_F(OfAPreparedCall, AddressesThatWereSeenAreNotAskedForAgain) {
  ASSERT_TRUE(call.run(loss.tensors(), memory(), nullptr).ok());
  EXPECT_EQ(addressQuestions(), 8u); // seven tensors and the workspace
  fake.forgetCalls();
  ASSERT_TRUE(call.run(loss.tensors(), memory(), nullptr).ok());
  EXPECT_EQ(addressQuestions(), 0u);
  const Buffer other = *device().allocate(call.workspaceBytes(), nullptr);
  fake.forgetCalls();
  ASSERT_TRUE(call.run(loss.tensors(), {other.data(), call.workspaceBytes(), {}}, nullptr).ok());
  EXPECT_EQ(addressQuestions(), 1u);
}

TEST_F(OfAPreparedCall, StatusWordsThatKernelsOrTheHostDoNotReachAreRefused) {
  EXPECT_THAT(CallStatus::at(device(), host).status().message(), HasSubstr("found host memory"));
  EXPECT_THAT(CallStatus::at(device(), workspace.data()).status().message(),
              AllOf(HasSubstr("expected host memory"), HasSubstr("found memory of device 0")));
  CpuDevice cpu(1);
  const CallMemory ofACpu = {workspace.data(), call.workspaceBytes(), *CallStatus::allocate(cpu)};
  expectHostMemory(call.run(loss.tensors(), ofACpu, nullptr), "status");
}

TEST_F(OfAPreparedCall, StatusWordsThatBothReachAreTaken) {
  const auto sameGpu = *CudaDevice::open(fake.table(), 0, noPowerLimit);
  const Buffer pinned = *device().allocateVisible(kCallStatusBytes);
  for (const auto &status : {CallStatus::allocate(device()), CallStatus::allocate(*sameGpu),
                             CallStatus::at(device(), pinned.data())}) {
    ASSERT_TRUE(status.ok()) << status.status().message();
    const Status run = call.run(loss.tensors(), {workspace.data(), call.workspaceBytes(), *status}, nullptr);
    EXPECT_TRUE(run.ok()) << run.message();
  }
}

class OfAScaledGradient : public CallerMemory {
protected:
  OfAScaledGradient()
      : scaling(*GradientScaling::prepare(runtime, ElementType::f32)),
        memory(*device().allocate(8192, nullptr)) {}
  /// A gradient of 20×16 numbers, so many bytes into the memory.
  TensorRef gradientAt(int64_t bytes) const {
    return TensorRef::matrix(static_cast<char *>(memory.data()) + bytes, ElementType::f32, 20, 16);
  }
  TensorRef scaleAt(int64_t bytes) const {
    return TensorRef::vector(static_cast<char *>(memory.data()) + bytes, ElementType::f32, 1);
  }
  void expectOverlap(const TensorRef &gradient, const TensorRef &scale, const TensorRef &result,
                     const std::string &with) {
    const Status status = scaling.run(gradient, scale, result, nullptr);
    EXPECT_EQ(status.kind(), StatusKind::user);
    EXPECT_THAT(status.message(), HasSubstr("result overlaps " + with));
    EXPECT_TRUE(fake.launches().empty());
  }

  GradientScaling scaling;
  Buffer memory;
};

TEST_F(OfAScaledGradient, TensorsOfTheHostAreRefused) {
  float host[20 * 16] = {};
  const TensorRef ofHost = TensorRef::matrix(host, ElementType::f32, 20, 16);
  expectHostMemory(scaling.run(ofHost, scaleAt(8000), gradientAt(0), nullptr), "gradient");
  expectHostMemory(scaling.run(gradientAt(0), scaleAt(8000), ofHost, nullptr), "result");
  expectHostMemory(scaling.run(ofHost, scaleAt(8000), ofHost, nullptr), "gradient");
  expectHostMemory(
      scaling.run(gradientAt(0), TensorRef::vector(host, ElementType::f32, 1), gradientAt(0), nullptr),
      "scale");
}

TEST_F(OfAScaledGradient, TwoHaveMemoryOfTheirOwnAndAsManyColumns) {
  const auto refusal = [&](const TensorRef &first, const TensorRef &second, const TensorRef &scale) {
    const Status status = scaling.runPair(first, second, scale, nullptr);
    EXPECT_EQ(status.kind(), StatusKind::user);
    EXPECT_TRUE(fake.launches().empty());
    return status.message();
  };
  float host[20 * 16] = {};
  const TensorRef ofHost = TensorRef::matrix(host, ElementType::f32, 20, 16);
  EXPECT_THAT(refusal(ofHost, gradientAt(0), scaleAt(8000)), HasSubstr("first"));
  EXPECT_THAT(refusal(gradientAt(0), ofHost, scaleAt(8000)), HasSubstr("second"));
  EXPECT_THAT(refusal(gradientAt(0), gradientAt(1276), scaleAt(8000)), HasSubstr("first overlaps second"));
  EXPECT_THAT(refusal(gradientAt(0), gradientAt(2048), scaleAt(64)), HasSubstr("overlaps scale"));
  EXPECT_THAT(refusal(gradientAt(0), gradientAt(2048), TensorRef::vector(memory.data(), ElementType::f32, 2)),
              HasSubstr("one number"));
  TensorRef narrow = gradientAt(2048);
  narrow.sizes[1] = 15;
  EXPECT_THAT(refusal(gradientAt(0), narrow, scaleAt(8000)), HasSubstr("as many columns, found 16 and 15"));
  EXPECT_TRUE(scaling.runPair(gradientAt(0), gradientAt(2048), scaleAt(8000), nullptr).ok());
}

TEST_F(OfAScaledGradient, AResultLiesApartOrInTheGradientsPlace) {
  expectOverlap(gradientAt(0), scaleAt(8000), gradientAt(64), "gradient");
  expectOverlap(gradientAt(64), scaleAt(8000), gradientAt(0), "gradient");
  expectOverlap(gradientAt(0), scaleAt(3000), gradientAt(2048), "scale");
  expectOverlap(gradientAt(0), scaleAt(1276), gradientAt(0), "scale");
  EXPECT_TRUE(scaling.run(gradientAt(0), scaleAt(8000), gradientAt(0), nullptr).ok());
  EXPECT_TRUE(scaling.run(gradientAt(0), scaleAt(1280), gradientAt(2048), nullptr).ok());
}

TEST_F(OfAScaledGradient, AScaleIsOneNumber) {
  TensorRef none = scaleAt(8000);
  none.sizes[0] = 0;
  EXPECT_THAT(scaling.run(gradientAt(0), none, gradientAt(0), nullptr).message(), HasSubstr("scale"));
}

TEST_F(CallerMemory, OfAKernelOfOnesOwn) {
  char host[64] = {};
  const Buffer memory = *device().allocate(64, nullptr);
  const auto vector = [](void *data) { return TensorRef::vector(data, ElementType::f32, 16); };
  const Kernel kernel = vectorAdd(ElementType::f32);
  expectHostMemory(
      launch(runtime, kernel, {vector(memory.data()), vector(host), vector(memory.data())}, nullptr),
      "parameter 'b'");
}

} // namespace
} // namespace tilewright::test
