#include "tests/support/loss_run.h"

#include "kernels/lce/plan.h"
#include "kernels/lce_call.h"
#include "tests/support/loss_tensors.h"

namespace tilewright::test {
namespace {

void setReport(LossResult &result, StatusOr<LossReport> report, Device &device) {
  result.status = report.status();
  if (!report.ok()) return;
  result.report = *report;
  result.status = device.synchronize(nullptr);
  if (result.status.ok()) result.status = report->status.error();
}

/// A plan that the test changes.
StatusOr<LossReport> enqueueChanged(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                                    const LinearCrossEntropyOptions &options, const LossCall &call) {
  Device &device = runtime.device();
  TW_ASSIGN_OR_RETURN(const lce::Request request, lce::requestFor(tensors, options, device.info()));
  TW_ASSIGN_OR_RETURN(lce::Config config,
                      plan(request, options.variant, options.workspaceLimit, device.info()));
  call.changePlan(config);
  TW_ASSIGN_OR_RETURN(const auto prepared, lce::prepareCall(runtime, request, config, options));
  LossReport report;
  report.variant = config.variant;
  report.configuration = config.str();
  report.workspaceBytes = prepared->workspaceBytes();
  TW_ASSIGN_OR_RETURN(report.status, runtime.callStatus());
  TW_ASSIGN_OR_RETURN(const Buffer workspace, device.allocate(report.workspaceBytes, nullptr));
  TW_RETURN_IF_ERROR(prepared->run(lce::TensorsById(tensors),
                                   {workspace.data(), report.workspaceBytes, report.status}, nullptr));
  return report;
}

/// Losses, and then gradients from their lse; the report is the backward call's.
StatusOr<LossReport> enqueueApart(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                                  const LinearCrossEntropyOptions &options) {
  const DeviceTensor lse = poisonedVector(runtime.device(), ElementType::f32, tensors.hidden.sizes[0]);
  LinearCrossEntropyTensors forward = tensors, backward = tensors;
  forward.dHidden = forward.dWeight = forward.dBias = {};
  forward.gradOutput = forward.gradLse = forward.gradEntropy = {};
  if (!forward.lse.data) forward.lse = lse;
  backward.loss = backward.lse = backward.entropy = backward.argmax = backward.correct =
      backward.monitored = {};
  backward.savedLse = forward.lse;
  LinearCrossEntropyOptions forwardOptions = options;
  forwardOptions.variant = Variant::automatic;
  TW_ASSIGN_OR_RETURN(const LossReport report, linearCrossEntropy(runtime, forward, forwardOptions, nullptr));
  if (!tensors.dHidden.data && !tensors.dWeight.data && !tensors.dBias.data) return report;
  return linearCrossEntropyBackward(runtime, backward, options, nullptr);
}

StatusOr<LossReport> enqueue(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                             const LinearCrossEntropyOptions &options, const LossCall &call) {
  if (call.changePlan) return enqueueChanged(runtime, tensors, options, call);
  if (call.apart) return enqueueApart(runtime, tensors, options);
  return linearCrossEntropy(runtime, tensors, options, nullptr);
}

} // namespace

LossResult runLinearCrossEntropy(Runtime &runtime, const LossCase &data, const LossCall &call) {
  Device &device = runtime.device();
  const CommonTensors common(device, data, call);
  const DeviceTensor x = DeviceTensor::matrix(device, data.element, data.rows, data.hidden, data.x, call.gap);
  const DeviceTensor w =
      DeviceTensor::matrix(device, data.element, data.classes, data.hidden, data.w, call.gap);
  const DeviceTensor bias = givenVector(device, data.element, data.bias);
  const GradientTensors gradients(device, data, call);
  LinearCrossEntropyTensors tensors = tensorsOf(common, gradients);
  tensors.hidden = x, tensors.weight = w, tensors.bias = bias;

  LossResult result;
  setReport(result, enqueue(runtime, tensors, optionsOf(data, call), call), device);
  collectCommon(result, common);
  collect(result, result.dHidden, gradients.hidden);
  collect(result, result.dWeight, gradients.weight);
  collect(result, result.dBias, gradients.bias);
  return result;
}

int64_t configured(const LossResult &result, const std::string &word) {
  const std::string &text = result.report.configuration;
  const std::size_t place = text.find(word + " ");
  return place == std::string::npos ? 0 : std::stoll(text.substr(place + word.size() + 1));
}

LossResult runCrossEntropy(Runtime &runtime, const LossCase &data, const LossCall &call) {
  Device &device = runtime.device();
  const CommonTensors common(device, data, call);
  const DeviceTensor z =
      DeviceTensor::matrix(device, data.element, data.rows, data.classes, data.x, call.gap);
  const ElementType gradient = call.gradient.value_or(data.element);
  DeviceTensor separate;
  if (!call.inPlace && call.wantsDHidden)
    separate = poisonedMatrix(device, gradient, data.rows, data.classes, call.gap);
  const DeviceTensor &dLogits = call.inPlace ? z : separate;

  CrossEntropyTensors tensors = {z, common.label, common.gradOutput, common.loss, common.lse, dLogits};
  tensors.classWeight = common.classWeight;
  tensors.gradLse = common.gradLse, tensors.gradEntropy = common.gradEntropy;
  tensors.entropy = common.entropy, tensors.argmax = common.argmax;
  tensors.correct = common.correct, tensors.monitored = common.monitored;
  CrossEntropyOptions options = call;
  options.ignoreIndex = data.ignoreIndex;

  LossResult result;
  setReport(result, crossEntropy(runtime, tensors, options, nullptr), device);
  collectCommon(result, common);
  collect(result, result.dLogits, dLogits);
  return result;
}

} // namespace tilewright::test
