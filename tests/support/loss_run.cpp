#include "tests/support/loss_run.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace tilewright::test {
namespace {

/// The tensors that both losses have.
struct Common {
  DeviceTensor label, gradOutput, loss, lse;

  Common(Device &device, const LossCase &data, const LossCall &call)
      : label(DeviceTensor::vector(device, call.label, data.rows)) {
    label.setLabels(data.label);
    loss = DeviceTensor::vector(device, ElementType::f32, call.reduction == Reduction::none ? data.rows : 1);
    loss.poison();
    if (!call.gradOutput.empty())
      gradOutput = DeviceTensor::vector(device, ElementType::f32, call.gradOutput);
    if (!call.wantsLse) return;
    lse = DeviceTensor::vector(device, ElementType::f32, data.rows);
    lse.poison();
  }
};

DeviceTensor poisoned(Device &device, ElementType element, int64_t rows, int64_t columns, int64_t gap) {
  DeviceTensor tensor = DeviceTensor::matrix(device, element, rows, columns, gap);
  tensor.poison();
  return tensor;
}

void collect(LossResult &result, std::vector<double> &values, const DeviceTensor &tensor) {
  if (!tensor.ref().data) return;
  values = tensor.get();
  const std::vector<uint8_t> bytes = tensor.bytes();
  result.bits.insert(result.bits.end(), bytes.begin(), bytes.end());
  result.gapsUntouched = result.gapsUntouched && tensor.gapsUntouched();
}

void setReport(LossResult &result, StatusOr<LossReport> report, Device &device) {
  result.status = report.status();
  if (!report.ok()) return;
  result.report = *report;
  result.status = device.synchronize(nullptr);
}

double tolerance(ElementType element) {
  switch (element) {
  case ElementType::bf16:
    return 4e-3;
  case ElementType::f16:
    return 1e-3;
  default:
    return 2e-5;
  }
}

void expectLosses(const std::vector<double> &got, const std::vector<double> &want, double logitSize,
                  const char *what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], 3e-6 * logitSize) << what << " " << i;
}

} // namespace

LossResult runLinearCrossEntropy(Runtime &runtime, const LossCase &data, const LossCall &call) {
  Device &device = runtime.device();
  const int64_t n = data.rows, h = data.hidden, v = data.classes;
  const Common common(device, data, call);
  const DeviceTensor x = DeviceTensor::matrix(device, data.element, n, h, data.x, call.gap);
  const DeviceTensor w = DeviceTensor::matrix(device, data.element, v, h, data.w, call.gap);
  const ElementType gradient = call.gradient.value_or(data.element);
  DeviceTensor dHidden, dWeight;
  if (call.wantsDHidden) dHidden = poisoned(device, gradient, n, h, call.gap);
  if (call.wantsDWeight) dWeight = poisoned(device, gradient, v, h, call.gap);

  LinearCrossEntropyOptions options;
  options.reduction = call.reduction;
  options.ignoreIndex = data.ignoreIndex;
  options.variant = call.variant;
  options.workspaceLimit = call.workspaceLimit;
  LossResult result;
  setReport(result,
            linearCrossEntropy(
                runtime, {x, w, common.label, common.gradOutput, common.loss, common.lse, dHidden, dWeight},
                options),
            device);
  collect(result, result.loss, common.loss);
  collect(result, result.lse, common.lse);
  collect(result, result.dHidden, dHidden);
  collect(result, result.dWeight, dWeight);
  return result;
}

LossResult runCrossEntropy(Runtime &runtime, const LossCase &data, const LossCall &call) {
  Device &device = runtime.device();
  const Common common(device, data, call);
  const DeviceTensor z =
      DeviceTensor::matrix(device, data.element, data.rows, data.classes, data.x, call.gap);
  const ElementType gradient = call.gradient.value_or(data.element);
  DeviceTensor separate;
  if (!call.inPlace && call.wantsDHidden)
    separate = poisoned(device, gradient, data.rows, data.classes, call.gap);
  const DeviceTensor &dLogits = call.inPlace ? z : separate;

  LossResult result;
  setReport(result,
            crossEntropy(runtime, {z, common.label, common.gradOutput, common.loss, common.lse, dLogits},
                         {call.reduction, data.ignoreIndex}),
            device);
  collect(result, result.loss, common.loss);
  collect(result, result.lse, common.lse);
  collect(result, result.dLogits, dLogits);
  return result;
}

void expectClose(const LossResult &result, const ReferenceResult &reference, const LossCase &data,
                 double gradientFloor) {
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_TRUE(result.gapsUntouched);
  // A sum of losses is judged by its terms: their number times the logits' size.
  const bool perRow = reference.loss.size() == reference.lse.size();
  const double terms = perRow ? 1 : std::max<double>(1, std::abs(reference.loss[0]) / reference.logitSize);
  expectLosses(result.loss, reference.loss, terms * reference.logitSize, "loss");
  if (!result.lse.empty()) expectLosses(result.lse, reference.lse, reference.logitSize, "lse");
  const auto expectGradient = [&](const std::vector<double> &got, const std::vector<double> &want,
                                  const char *what) {
    if (got.empty()) return;
    EXPECT_LE(relativeError(got, want, gradientFloor), tolerance(data.element)) << what;
  };
  expectGradient(result.dHidden, reference.dHidden, "dX");
  expectGradient(result.dWeight, reference.dWeight, "dW");
  expectGradient(result.dLogits, reference.dLogits, "dZ");
}

} // namespace tilewright::test
