// Forward and backward apart, and prepared calls: what a training framework does with them. Every option is
// in loss_options_test.

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/gradient_scaling.h"
#include "kernels/linear_cross_entropy.h"
#include "tests/support/loss_call.h"
#include "tests/support/loss_run.h"

namespace tilewright::test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 70, kHidden = 24, kClasses = 300;

/// A call's tensors on a device.
struct Tensors {
  DeviceTensor x, w, label, loss, lse, dX, dW;
  LinearCrossEntropyTensors refs;

  Tensors(Device &device, const LossCase &data, Reduction reduction = Reduction::mean)
      : x(DeviceTensor::matrix(device, data.element, data.rows, data.hidden, data.x)),
        w(DeviceTensor::matrix(device, data.element, data.classes, data.hidden, data.w)),
        label(DeviceTensor::vector(device, ElementType::i64, data.rows)),
        loss(DeviceTensor::vector(device, ElementType::f32, reduction == Reduction::none ? data.rows : 1)),
        lse(DeviceTensor::vector(device, ElementType::f32, data.rows)),
        dX(DeviceTensor::matrix(device, ElementType::f32, data.rows, data.hidden)),
        dW(DeviceTensor::matrix(device, ElementType::f32, data.classes, data.hidden)) {
    label.setLabels(data.label);
    refs.hidden = x, refs.weight = w, refs.label = label, refs.loss = loss, refs.lse = lse;
  }
  LinearCrossEntropyTensors fused() const {
    LinearCrossEntropyTensors t = refs;
    t.dHidden = dX, t.dWeight = dW;
    return t;
  }
  LinearCrossEntropyTensors backward() const {
    LinearCrossEntropyTensors t = fused();
    t.loss = t.lse = {};
    t.savedLse = lse;
    return t;
  }
  void poison() {
    for (DeviceTensor *tensor : {&loss, &dX, &dW})
      tensor->poison();
  }
};

class Backward : public ::testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    runtime = openRuntime(GetParam());
    data = makeCase(DataKind::random, kRows, kHidden, kClasses, ElementType::f32, IgnorePattern::some);
  }
  Device &device() { return runtime->device(); }
  DeviceTensor scalar(float value) {
    return DeviceTensor::vector(device(), ElementType::f32, std::vector<float>{value});
  }

  std::unique_ptr<Runtime> runtime;
  LossCase data;
};

TEST_P(Backward, TwiceWithOtherUpstreamGradients) {
  Tensors t(device(), data);
  ASSERT_TRUE(linearCrossEntropy(*runtime, t.refs, {}, nullptr).ok());
  std::vector<std::vector<double>> gradients;
  for (const float upstream : {1.0f, -2.5f, 1.0f}) {
    t.poison();
    LinearCrossEntropyTensors b = t.backward();
    const DeviceTensor g = scalar(upstream);
    b.gradOutput = g;
    const auto report = linearCrossEntropyBackward(*runtime, b, {}, nullptr);
    ASSERT_TRUE(report.ok()) << report.status().message();
    gradients.push_back(t.dX.get());
  }
  EXPECT_EQ(gradients[0], gradients[2]);
  for (std::size_t i = 0; i < gradients[0].size(); ++i)
    EXPECT_NEAR(gradients[1][i], -2.5 * gradients[0][i], 1e-6);
}

TEST_P(Backward, EitherGradientAlone) {
  Tensors t(device(), data);
  ASSERT_TRUE(linearCrossEntropy(*runtime, t.refs, {}, nullptr).ok());
  ASSERT_TRUE(linearCrossEntropyBackward(*runtime, t.backward(), {}, nullptr).ok());
  const std::vector<double> dX = t.dX.get(), dW = t.dW.get();
  t.poison();
  LinearCrossEntropyTensors alone = t.backward();
  alone.dWeight = {};
  ASSERT_TRUE(linearCrossEntropyBackward(*runtime, alone, {}, nullptr).ok());
  EXPECT_EQ(t.dX.get(), dX);
  alone = t.backward();
  alone.dHidden = {};
  ASSERT_TRUE(linearCrossEntropyBackward(*runtime, alone, {}, nullptr).ok());
  EXPECT_EQ(t.dW.get(), dW);
}

// A loss of a millionth, of which lse tells next to nothing: what is left of the row's mass is summed again.
TEST_P(Backward, KeepsTheDigitsOfSmallLosses) {
  const LossCase confident = makeCase(DataKind::confident, kRows, kHidden, kClasses, ElementType::f32);
  LossCall call;
  call.apart = true;
  expectClose(runLinearCrossEntropy(*runtime, confident, call), referenceFor(confident, call), confident);
}

// No shift is looked for a second time: every E is at most 1.
TEST_P(Backward, RepairsNothing) {
  Tensors t(device(), data);
  const auto fused = PreparedLinearCrossEntropy::prepare(*runtime, t.fused(), {});
  const auto backward = PreparedLinearCrossEntropy::prepare(*runtime, t.backward(), {}, CallPass::backward);
  ASSERT_TRUE(fused.ok() && backward.ok());
  EXPECT_THAT(fused->program().str(), HasSubstr("lce_check_shifts"));
  for (const char *repair : {"lce_check_shifts", "lce_retry_range", "lce_total_sums"})
    EXPECT_EQ(backward->program().str().find(repair), std::string::npos) << repair;
}

TEST_P(Backward, ScaledGradientsAreThoseOfTheScaledLoss) {
  Tensors t(device(), data);
  LinearCrossEntropyTensors fused = t.fused();
  const DeviceTensor half = scalar(0.5f), one = scalar(1);
  fused.gradOutput = half;
  ASSERT_TRUE(linearCrossEntropy(*runtime, fused, {}, nullptr).ok());
  const std::vector<double> want = t.dW.get();
  fused.gradOutput = {};
  ASSERT_TRUE(linearCrossEntropy(*runtime, fused, {}, nullptr).ok());
  const std::vector<double> saved = t.dW.get();
  const auto scaling = GradientScaling::prepare(*runtime, ElementType::f32);
  ASSERT_TRUE(scaling.ok()) << scaling.status().message();

  DeviceTensor other = DeviceTensor::matrix(device(), ElementType::f32, kClasses, kHidden);
  ASSERT_TRUE(scaling->run(t.dW, half, other, nullptr).ok());
  EXPECT_EQ(other.get(), want);
  EXPECT_EQ(t.dW.get(), saved) << "the saved gradient stays";
  ASSERT_TRUE(scaling->run(t.dW, one, t.dW, nullptr).ok());
  EXPECT_EQ(t.dW.get(), saved);
  ASSERT_TRUE(scaling->run(t.dW, half, t.dW, nullptr).ok());
  EXPECT_EQ(t.dW.get(), want);
}

TEST_P(Backward, SavedGradientsAreRoundedOnceScaled) {
  const std::vector<float> saved = {1e-9f, -3e-9f, 0.5f, 70000.0f, 1.0f / 3, 0};
  const float factor = 65536;
  const DeviceTensor scale = scalar(factor);
  const DeviceTensor from = DeviceTensor::matrix(device(), ElementType::f32, 2, 3, saved);
  for (const ElementType element : {ElementType::f16, ElementType::bf16}) {
    const auto scaling = GradientScaling::prepare(*runtime, element);
    ASSERT_TRUE(scaling.ok()) << scaling.status().message();
    DeviceTensor to = DeviceTensor::matrix(device(), element, 2, 3);
    const Status status = scaling->run(from, scale, to, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    const std::vector<double> found = to.get();
    for (std::size_t i = 0; i < saved.size(); ++i)
      EXPECT_EQ(found[i], rounded(factor * saved[i], element)) << i;
    EXPECT_THAT(scaling->run(to, scale, from, nullptr).message(), HasSubstr("found"));
    EXPECT_THAT(scaling->run(from, scale, from, nullptr).message(), HasSubstr("or a gradient of f32 apart"));
  }
}

TEST_P(Backward, TwoGradientsAreScaledAtOnce) {
  Tensors t(device(), data);
  LinearCrossEntropyTensors fused = t.fused();
  const DeviceTensor half = scalar(0.5f), one = scalar(1);
  fused.gradOutput = half;
  ASSERT_TRUE(linearCrossEntropy(*runtime, fused, {}, nullptr).ok());
  const std::vector<double> dX = t.dX.get(), dW = t.dW.get();
  const auto scaling = GradientScaling::prepare(*runtime, ElementType::f32);
  ASSERT_TRUE(scaling.ok()) << scaling.status().message();
  for (const bool xFirst : {true, false}) { // whichever of them has more rows
    fused.gradOutput = {};
    ASSERT_TRUE(linearCrossEntropy(*runtime, fused, {}, nullptr).ok());
    const TensorRef pair[] = {xFirst ? t.dX : t.dW, xFirst ? t.dW : t.dX};
    for (const DeviceTensor *factor : {&half, &one}) {
      const Status status = scaling->runPair(pair[0], pair[1], *factor, nullptr);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(t.dX.get(), dX);
      EXPECT_EQ(t.dW.get(), dW);
    }
  }
}

TEST_P(Backward, MistakesAreNamed) {
  Tensors t(device(), data);
  const auto messageOf = [&](const LinearCrossEntropyTensors &tensors) {
    return linearCrossEntropyBackward(*runtime, tensors, {}, nullptr).status().message();
  };
  LinearCrossEntropyTensors wrong = t.backward();
  wrong.savedLse = {};
  EXPECT_THAT(messageOf(wrong), HasSubstr("savedLse"));
  wrong = t.backward();
  wrong.loss = t.loss;
  EXPECT_THAT(messageOf(wrong), HasSubstr("gradients alone"));
  wrong = t.backward();
  wrong.dHidden = wrong.dWeight = {};
  EXPECT_THAT(messageOf(wrong), HasSubstr("dHidden"));
}

class Prepared : public Backward {
protected:
  Buffer workspaceOf(const PreparedLinearCrossEntropy &call) {
    return *device().allocate(call.workspaceBytes(), nullptr);
  }
};

TEST_P(Prepared, RunsInTheCallersMemory) {
  Tensors t(device(), data);
  const auto call = PreparedLinearCrossEntropy::prepare(*runtime, t.fused(), {});
  ASSERT_TRUE(call.ok()) << call.status().message();
  const Buffer workspace = workspaceOf(*call);
  const CallMemory memory = {workspace.data(), call->workspaceBytes(), *CallStatus::allocate(device())};
  ASSERT_TRUE(linearCrossEntropy(*runtime, t.fused(), {}, nullptr).ok());
  const std::vector<double> want = t.dW.get();
  for (int i = 0; i < 2; ++i) {
    t.poison();
    ASSERT_TRUE(call->run(t.fused(), memory, nullptr).ok());
    ASSERT_TRUE(device().synchronize(nullptr).ok());
    EXPECT_TRUE(memory.status.isDone());
    EXPECT_TRUE(memory.status.error().ok());
    EXPECT_EQ(t.dW.get(), want);
  }
}

TEST_P(Prepared, RefusesWhatItWasNotPreparedFor) {
  Tensors t(device(), data);
  const auto call = PreparedLinearCrossEntropy::prepare(*runtime, t.fused(), {});
  ASSERT_TRUE(call.ok());
  const Buffer workspace = workspaceOf(*call);
  const CallMemory memory = {workspace.data(), call->workspaceBytes(), {}};
  const auto messageOf = [&](const LinearCrossEntropyTensors &tensors, const CallMemory &m) {
    const Status status = call->run(tensors, m, nullptr);
    EXPECT_EQ(status.kind(), StatusKind::user);
    return status.message();
  };
  LinearCrossEntropyTensors wrong = t.fused();
  wrong.dWeight = {};
  EXPECT_THAT(messageOf(wrong, memory), HasSubstr("dWeight"));
  wrong = t.fused();
  wrong.hidden = wrong.hidden.rows(0, 10);
  EXPECT_THAT(messageOf(wrong, memory), HasSubstr("hidden"));
  wrong = t.fused();
  wrong.gradLse = t.lse;
  EXPECT_THAT(messageOf(wrong, memory), HasSubstr("gradLse"));
  wrong = t.fused();
  wrong.dHidden.data = wrong.hidden.data;
  EXPECT_THAT(messageOf(wrong, memory), HasSubstr("overlaps"));
  wrong = t.fused();
  wrong.lse.data = workspace.data();
  EXPECT_THAT(messageOf(wrong, memory), HasSubstr("the workspace"));
  EXPECT_THAT(messageOf(t.fused(), {workspace.data(), memory.bytes - 1, {}}), HasSubstr("bytes"));
  EXPECT_THAT(messageOf(t.fused(), {nullptr, memory.bytes, {}}), HasSubstr("null"));
}

TEST_P(Prepared, AConfigurationIsTextThatCanBePinned) {
  Tensors t(device(), data);
  LinearCrossEntropyOptions options;
  for (const int64_t limit : {int64_t(0), int64_t(60000)}) {
    options.workspaceLimit = limit;
    const auto call = PreparedLinearCrossEntropy::prepare(*runtime, t.fused(), options);
    ASSERT_TRUE(call.ok()) << call.status().message();
    LinearCrossEntropyOptions pinned;
    pinned.configuration = call->configuration();
    ASSERT_NE(pinned.configuration, "");
    const auto again = PreparedLinearCrossEntropy::prepare(*runtime, t.fused(), pinned);
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again->description(), call->description());
    EXPECT_EQ(again->workspaceBytes(), call->workspaceBytes());
  }
  options.configuration = "chunk_rows=7";
  EXPECT_FALSE(PreparedLinearCrossEntropy::prepare(*runtime, t.fused(), options).ok());
}

TEST_P(Prepared, BadLabelsAreTheCallsOwn) {
  LossCase bad = data;
  bad.label[5] = kClasses;
  Tensors t(device(), bad), good(device(), data);
  const auto report = linearCrossEntropy(*runtime, t.fused(), {}, nullptr);
  ASSERT_TRUE(linearCrossEntropy(*runtime, good.fused(), {}, nullptr).ok());
  ASSERT_TRUE(device().synchronize(nullptr).ok());
  const Status found = report.ok() ? report->status.error() : report.status();
  EXPECT_EQ(found.message(), labelError(5, kClasses, kClasses, kDefaultIgnoreIndex).message());
}

INSTANTIATE_TEST_SUITE_P(All, Backward, ::testing::ValuesIn(testDevices()),
                         [](const auto &info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(All, Prepared, ::testing::ValuesIn(testDevices()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace tilewright::test
