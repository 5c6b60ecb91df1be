#include "tests/support/loss_tensors.h"

namespace tilewright::test {
namespace {

DeviceTensor poisoned(DeviceTensor tensor) {
  tensor.poison();
  return tensor;
}

} // namespace

DeviceTensor poisonedVector(Device &device, ElementType element, int64_t size) {
  return poisoned(DeviceTensor::vector(device, element, size));
}

DeviceTensor poisonedMatrix(Device &device, ElementType element, int64_t rows, int64_t columns, int64_t gap) {
  return poisoned(DeviceTensor::matrix(device, element, rows, columns, gap));
}

CommonTensors::CommonTensors(Device &device, const LossCase &data, const LossCall &call)
    : label(DeviceTensor::vector(device, call.label, data.rows)) {
  const ElementType f32 = ElementType::f32, i32 = ElementType::i32;
  label.setLabels(data.label);
  gradOutput = givenVector(device, f32, call.gradOutput);
  classWeight = givenVector(device, f32, data.classWeight);
  gradLse = givenVector(device, f32, call.gradLse);
  gradEntropy = givenVector(device, f32, call.gradEntropy);
  loss = poisonedVector(device, f32, call.reduction == Reduction::none ? data.rows : 1);
  if (call.wantsLse) lse = poisonedVector(device, f32, data.rows);
  if (!call.observes) return;
  entropy = poisonedVector(device, f32, data.rows);
  argmax = poisonedVector(device, i32, data.rows);
  correct = poisonedVector(device, i32, data.rows);
  monitored = poisonedVector(device, f32, kMonitoredQuantities);
}

GradientTensors::GradientTensors(Device &device, const LossCase &data, const LossCall &call) {
  const ElementType element = call.gradient.value_or(data.element);
  if (call.wantsDHidden) hidden = poisonedMatrix(device, element, data.rows, data.hidden, call.gap);
  if (call.wantsDWeight) weight = poisonedMatrix(device, element, data.classes, data.hidden, call.gap);
  if (call.wantsDBias && !data.bias.empty()) bias = poisonedVector(device, element, data.classes);
  if (!call.accumulate) return;
  if (weight.ref().data) weight.set({data.dWeightBefore.begin(), data.dWeightBefore.end()});
  if (bias.ref().data) bias.set({data.dBiasBefore.begin(), data.dBiasBefore.end()});
}

void collect(LossResult &result, std::vector<double> &values, const DeviceTensor &tensor) {
  if (!tensor.ref().data) return;
  values = tensor.get();
  const std::vector<uint8_t> bytes = tensor.bytes();
  result.bits.insert(result.bits.end(), bytes.begin(), bytes.end());
  result.gapsUntouched = result.gapsUntouched && tensor.gapsUntouched();
}

void collectCommon(LossResult &result, const CommonTensors &common) {
  collect(result, result.loss, common.loss);
  collect(result, result.lse, common.lse);
  collect(result, result.entropy, common.entropy);
  collect(result, result.argmax, common.argmax);
  collect(result, result.correct, common.correct);
  collect(result, result.monitored, common.monitored);
}

LinearCrossEntropyTensors tensorsOf(const CommonTensors &common, const GradientTensors &gradients) {
  LinearCrossEntropyTensors t = {};
  t.label = common.label, t.gradOutput = common.gradOutput, t.classWeight = common.classWeight;
  t.gradLse = common.gradLse, t.gradEntropy = common.gradEntropy;
  t.loss = common.loss, t.lse = common.lse, t.entropy = common.entropy;
  t.argmax = common.argmax, t.correct = common.correct, t.monitored = common.monitored;
  t.dHidden = gradients.hidden, t.dWeight = gradients.weight, t.dBias = gradients.bias;
  return t;
}

LinearCrossEntropyOptions optionsOf(const LossCase &data, const LossCall &call) {
  LinearCrossEntropyOptions options;
  static_cast<LossOptions &>(options) = call;
  options.ignoreIndex = data.ignoreIndex;
  options.variant = call.variant;
  options.workspaceLimit = call.workspaceLimit;
  options.lmcl = call.lmcl;
  options.flushSmallProbabilities = call.flushSmallProbabilities;
  options.accumulate = call.accumulate;
  options.tf32 = data.tf32;
  return options;
}

} // namespace tilewright::test
