// Mistakes of a loss's caller: each is a user error that says what was found.

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/largest_size.h"
#include "tests/support/loss_run.h"

namespace tilewright::test {
namespace {

using testing::HasSubstr;

class LossErrors : public testing::Test {
protected:
  std::unique_ptr<Runtime> runtime = openRuntime();
  Device &device = runtime->device();
  const DeviceTensor x = DeviceTensor::matrix(device, ElementType::f32, 6, 8);
  const DeviceTensor w = DeviceTensor::matrix(device, ElementType::f32, 10, 8);
  const DeviceTensor label = DeviceTensor::vector(device, ElementType::i64, std::vector<int>(6, 3));
  const DeviceTensor loss = DeviceTensor::vector(device, ElementType::f32, 1);
  const DeviceTensor logits = DeviceTensor::matrix(device, ElementType::f32, 6, 10);
  LinearCrossEntropyTensors tensors = {x, w, label, {}, loss, {}, {}, {}};
  CrossEntropyTensors logitTensors = {logits, label, {}, loss, {}, {}};

  void expectError(const std::string &part, const LinearCrossEntropyOptions &options = {}) {
    const auto report = linearCrossEntropy(*runtime, tensors, options, nullptr);
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.status().kind(), StatusKind::user);
    EXPECT_THAT(report.status().message(), HasSubstr(part));
  }
  void expectLogitsError(const std::string &part) {
    const auto report = crossEntropy(*runtime, logitTensors, {}, nullptr);
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.status().kind(), StatusKind::user);
    EXPECT_THAT(report.status().message(), HasSubstr(part));
  }
};

TEST_F(LossErrors, ShapesAndTypes) {
  const DeviceTensor narrow = DeviceTensor::matrix(device, ElementType::f32, 10, 7);
  tensors.weight = narrow;
  expectError("weight must be 10x8 to fit the other tensors, found 10x7 f32");
  const DeviceTensor half = DeviceTensor::matrix(device, ElementType::bf16, 10, 8);
  tensors.weight = half;
  expectError("weight must have the type of hidden, f32, but has bf16");
  tensors.weight = w;
  tensors.hidden = label;
  expectError("hidden must be a matrix of f32, bf16 or f16, found a vector of 6 i64");
  tensors.hidden = x;
  tensors.hidden.rowStride = 7;
  expectError("rows of hidden must be at least 8 elements apart, found a row stride of 7");
  tensors.hidden = x;
  tensors.hidden.data = nullptr;
  expectError("hidden has no data");
}

TEST_F(LossErrors, SizesThatKernelsCannotNumber) {
  const int64_t most = kLargestSize; // of views: nobody reads what they say is there
  tensors.hidden = TensorRef::matrix(x.ref().data, ElementType::f32, 1, most + 1);
  tensors.weight = TensorRef::matrix(w.ref().data, ElementType::f32, 10, most + 1);
  expectError("hidden states must have from 1 to 2147418112 columns, found 2147418113");
  tensors.hidden = TensorRef::matrix(x.ref().data, ElementType::f32, most + 1, 8);
  expectError("at most 2147418112 rows and classes are supported, found 2147418113 rows and 10 classes");
  tensors.hidden = x, tensors.weight = TensorRef::matrix(w.ref().data, ElementType::f32, most + 1, 8);
  expectError("at most 2147418112 rows and classes are supported, found 6 rows and 2147418113 classes");
}

TEST_F(LossErrors, LabelsAndLosses) {
  const DeviceTensor floats = DeviceTensor::vector(device, ElementType::f32, 6);
  tensors.label = floats;
  expectError("label must be a vector of i32 or i64, found a vector of 6 f32");
  const DeviceTensor few = DeviceTensor::vector(device, ElementType::i64, 5);
  tensors.label = few;
  expectError("label must be a vector of 6 i64, found a vector of 5 i64");
  tensors.label = label;
  tensors.loss = floats;
  expectError("loss must be a vector of 1 f32, found a vector of 6 f32");
  tensors.loss = loss;
  tensors.gradOutput = floats;
  expectError("gradOutput must be a vector of 1 f32 for reduction mean, found a vector of 6 f32");
}

TEST_F(LossErrors, Gradients) {
  tensors.dHidden = w;
  expectError("dHidden must be 6x8 to fit the other tensors, found 10x8 f32");
  const DeviceTensor half = DeviceTensor::matrix(device, ElementType::bf16, 6, 8);
  tensors.dHidden = half;
  expectError("dHidden must be of type f32 or of the inputs' type, f32, found 6x8 bf16");
}

TEST_F(LossErrors, Options) {
  LinearCrossEntropyOptions options;
  options.workspaceLimit = -1;
  expectError("the workspace limit must be 0 (none) or a number of bytes, found -1", options);
  const DeviceTensor dHidden = DeviceTensor::matrix(device, ElementType::f32, 6, 8);
  tensors.dHidden = dHidden;
  options.workspaceLimit = 100;
  expectError("a workspace limit of 100 bytes is too small: variant chunked needs at least", options);
  options.variant = Variant::chunked;
  expectError("a workspace limit of 100 bytes is too small: variant chunked needs at least", options);
  options = {};
  options.variant = Variant::lossOnly;
  expectError("variant loss_only computes no gradient", options);
}

TEST_F(LossErrors, OptionsOutOfRange) {
  const auto with = [](auto set) {
    LinearCrossEntropyOptions options;
    set(options);
    return options;
  };
  expectError("label smoothing must be from 0 to 1, found 1.5",
              with([](auto &o) { o.labelSmoothing = 1.5f; }));
  expectError("label smoothing must be from 0 to 1, found nan",
              with([](auto &o) { o.labelSmoothing = std::nanf(""); }));
  expectError("z-loss must be a finite number that is not negative, found -1",
              with([](auto &o) { o.zLoss = -1; }));
  expectError("logit scale must be a finite number other than 0", with([](auto &o) { o.logitScale = 0; }));
  expectError("softcap must be positive and finite; leave it unset for none, found 0",
              with([](auto &o) { o.softcap = 0.0f; }));
  expectError("LMCL's scale must be positive and finite, found -2", with([](auto &o) {
                o.lmcl = Margin{0.1f, -2};
              }));
  expectError("LMCL's margin must be finite, found inf", with([](auto &o) {
                o.lmcl = Margin{std::numeric_limits<float>::infinity(), 1};
              }));
}

TEST_F(LossErrors, OptionsThatExcludeEachOther) {
  LinearCrossEntropyOptions options;
  options.objective = Objective::prob;
  options.labelSmoothing = 0.1f;
  expectError("objective prob goes with no label smoothing", options);
  const DeviceTensor numbers = DeviceTensor::vector(device, ElementType::f32, 10);
  tensors.classWeight = numbers;
  options.labelSmoothing = 0;
  expectError("objective prob goes with no class weights", options);
  tensors.classWeight = {};
  options = {};
  options.lmcl = Margin{0.1f, 8};
  options.softcap = 20.0f;
  expectError("LMCL goes with no softcap", options);
  options.softcap.reset();
  options.logitScale = 2;
  expectError("LMCL goes with no logit scale", options);
  options.logitScale = 1;
  tensors.bias = numbers;
  expectError("LMCL goes with no bias", options);
}

TEST_F(LossErrors, Tf32IsForF32) {
  const DeviceTensor halfX = DeviceTensor::matrix(device, ElementType::bf16, 6, 8);
  const DeviceTensor halfW = DeviceTensor::matrix(device, ElementType::bf16, 10, 8);
  tensors.hidden = halfX, tensors.weight = halfW;
  LinearCrossEntropyOptions options;
  options.tf32 = true;
  expectError("tf32 is a way to multiply f32 matrices, but hidden has bf16", options);
}

TEST_F(LossErrors, OptionTensors) {
  const DeviceTensor few = DeviceTensor::vector(device, ElementType::f32, 9);
  tensors.classWeight = few;
  expectError("classWeight must be a vector of 10 f32, found a vector of 9 f32");
  const DeviceTensor negative =
      DeviceTensor::vector(device, ElementType::f32, std::vector<double>{1, 1, 1, 1, -1, 1, 1, 1, 1, 1});
  tensors.classWeight = negative;
  expectError("class weights must be finite and not negative, but that of class 4 is not");
  tensors.classWeight = {};
  tensors.bias = few;
  expectError("bias must be a vector of 10 f32, found a vector of 9 f32");
  tensors.bias = {};
  tensors.dBias = few;
  expectError("dBias is the gradient of a bias, and there is none");
  tensors.dBias = {};
  tensors.gradEntropy = few;
  expectError("gradEntropy must be a vector of 6 f32, found a vector of 9 f32");
}

TEST_F(LossErrors, TheSmallestWorkspaceIsEnough) {
  const LossCase data = makeCase(DataKind::random, 300, 16, 500, ElementType::bf16);
  for (const Variant variant : {Variant::automatic, Variant::recompute}) {
    LossCall call;
    call.variant = variant;
    call.workspaceLimit = 1;
    const std::string message = runLinearCrossEntropy(*runtime, data, call).status.message();
    // "… needs at least 21.3 KiB (21824 bytes) for …"
    call.workspaceLimit = std::stoll(message.substr(message.find('(', message.find("needs at least ")) + 1));
    const LossResult result = runLinearCrossEntropy(*runtime, data, call);
    ASSERT_TRUE(result.status.ok()) << result.status.message();
    EXPECT_EQ(result.report.workspaceBytes, call.workspaceLimit);
    --call.workspaceLimit;
    EXPECT_FALSE(runLinearCrossEntropy(*runtime, data, call).status.ok());
  }
}

TEST_F(LossErrors, LogitTensors) {
  logitTensors.logits = label;
  expectLogitsError("logits must be a matrix of f32, bf16 or f16");
  logitTensors.logits = logits;
  logitTensors.dLogits = x;
  expectLogitsError("dLogits must be 6x10 to fit the other tensors, found 6x8 f32");
  logitTensors.dLogits = logits;
  logitTensors.dLogits.rowStride = 11;
  expectLogitsError("dLogits in place of the logits must have their type and row stride");
}

struct BadLabel {
  int64_t value, ignoreIndex;
};

class BadLabels : public testing::TestWithParam<std::tuple<std::string, BadLabel>> {};

TEST_P(BadLabels, AreNamedWithTheirRow) {
  const auto &[device, bad] = GetParam();
  auto runtime = openRuntime(device);
  LossCase data = makeCase(DataKind::random, 300, 8, 40, ElementType::f32);
  data.ignoreIndex = bad.ignoreIndex;
  LossCase ignored = data;
  for (int64_t row : {131, 200})
    data.label[row] = bad.value, ignored.label[row] = bad.ignoreIndex;
  const std::string expected = "label " + std::to_string(bad.value) +
                               " in row 131 is no class: expected 0 to 39, or the ignore index " +
                               std::to_string(bad.ignoreIndex);
  for (ElementType type : {ElementType::i64, ElementType::i32}) {
    if (type == ElementType::i32 && int32_t(bad.value) != bad.value) continue;
    LossCall call;
    call.label = type;
    const LossResult result = runLinearCrossEntropy(*runtime, data, call);
    EXPECT_EQ(result.status.kind(), StatusKind::user);
    EXPECT_EQ(result.status.message(), expected);
    call.label = ElementType::i64;
    const LossResult good = runLinearCrossEntropy(*runtime, ignored, call);
    EXPECT_TRUE(good.status.ok()) << good.status.message(); // the report is gone
    EXPECT_EQ(result.bits, good.bits);

    LossCase logits = data;
    logits.x = makeCase(DataKind::random, 300, 40, 1, ElementType::f32).x;
    logits.hidden = 40;
    call.label = type;
    EXPECT_EQ(runCrossEntropy(*runtime, logits, call).status.message(), expected);
  }
}

std::string badLabelName(const testing::TestParamInfo<std::tuple<std::string, BadLabel>> &info) {
  return std::get<0>(info.param) + "_" + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadLabels,
    testing::Combine(testing::ValuesIn(testDevices()),
                     testing::Values(BadLabel{-1, -100}, BadLabel{40, -100}, BadLabel{INT64_MIN, -100},
                                     BadLabel{INT64_MAX, -1}, BadLabel{-100, -1},
                                     BadLabel{int64_t(1) << 32, -100}, BadLabel{INT32_MIN, INT64_MIN})),
    badLabelName);

} // namespace
} // namespace tilewright::test
