#include "tools/commands/run_loss.h"

#include <fmt/format.h>

#include "compiler/base/byte_text.h"
#include "kernels/cross_entropy.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/linear_logits.h"

namespace tilewright {
namespace {

StatusOr<OwnedTensor> uploadFile(Device &device, const NpyFile &file, ElementType element) {
  std::vector<char> bytes(file.header().elements() * elementBytes(element));
  TW_RETURN_IF_ERROR(file.readFloats(element, bytes.data()));
  return uploadBytes(device, element, file.header().shape, bytes.data());
}

/// Without values, no tensor.
StatusOr<OwnedTensor> uploadVector(Device &device, ElementType element, const std::vector<float> &values) {
  if (values.empty()) return OwnedTensor();
  return uploadFloats(device, element, {static_cast<int64_t>(values.size())}, values);
}

/// The tensors that both losses have.
struct CommonTensors {
  OwnedTensor label, gradOutput, classWeight, gradLse, gradEntropy;
  OwnedTensor loss, lse, entropy, argmax, correct, monitored;
};

StatusOr<CommonTensors> commonTensors(Device &device, const RunInputs &inputs) {
  const ElementType f32 = ElementType::f32;
  CommonTensors common;
  TW_ASSIGN_OR_RETURN(common.label,
                      uploadBytes(device, ElementType::i64, {inputs.rows}, inputs.labels.data()));
  TW_ASSIGN_OR_RETURN(common.gradOutput, uploadVector(device, f32, inputs.gradOutput));
  TW_ASSIGN_OR_RETURN(common.classWeight, uploadVector(device, f32, inputs.classWeight));
  TW_ASSIGN_OR_RETURN(common.gradLse, uploadVector(device, f32, inputs.gradLse));
  TW_ASSIGN_OR_RETURN(common.gradEntropy, uploadVector(device, f32, inputs.gradEntropy));
  const int64_t losses = inputs.reduction == Reduction::none ? inputs.rows : 1;
  TW_ASSIGN_OR_RETURN(common.loss, allocateTensor(device, f32, {losses}));
  TW_ASSIGN_OR_RETURN(common.lse, allocateTensor(device, f32, {inputs.rows}));
  if (!inputs.metrics) return common;
  TW_ASSIGN_OR_RETURN(common.entropy, allocateTensor(device, f32, {inputs.rows}));
  TW_ASSIGN_OR_RETURN(common.argmax, allocateTensor(device, ElementType::i32, {inputs.rows}));
  TW_ASSIGN_OR_RETURN(common.correct, allocateTensor(device, ElementType::i32, {inputs.rows}));
  TW_ASSIGN_OR_RETURN(common.monitored, allocateTensor(device, f32, {kMonitoredQuantities}));
  return common;
}

Status addCommon(Device &device, const RunInputs &inputs, const CommonTensors &common, RunResults &run) {
  TW_RETURN_IF_ERROR(device.synchronize(nullptr));
  TW_RETURN_IF_ERROR(run.report.status.error());
  const bool perRow = inputs.reduction == Reduction::none;
  const std::vector<int64_t> rows = {inputs.rows};
  run.results.push_back({"loss.npy", perRow ? rows : std::vector<int64_t>{}, common.loss});
  run.results.push_back({"lse.npy", rows, common.lse});
  if (!inputs.metrics) return {};
  run.results.push_back({"entropy.npy", rows, common.entropy});
  run.results.push_back({"argmax.npy", rows, common.argmax});
  run.results.push_back({"correct.npy", rows, common.correct});
  TW_ASSIGN_OR_RETURN(run.monitored, download(device, common.monitored.ref));
  return {};
}

} // namespace

StatusOr<RunResults> runLinear(Runtime &runtime, const RunInputs &inputs) {
  Device &device = runtime.device();
  const ElementType f32 = ElementType::f32; // of gradients, as they are written, whatever the inputs
  const std::vector<int64_t> xShape = {inputs.rows, inputs.hiddenSize},
                             wShape = {inputs.classes, inputs.hiddenSize};
  TW_ASSIGN_OR_RETURN(const OwnedTensor hidden, uploadFile(device, *inputs.hidden, inputs.type.element));
  TW_ASSIGN_OR_RETURN(const OwnedTensor weight, uploadFile(device, *inputs.weight, inputs.type.element));
  TW_ASSIGN_OR_RETURN(const OwnedTensor bias, uploadVector(device, f32, inputs.bias));
  TW_ASSIGN_OR_RETURN(const CommonTensors common, commonTensors(device, inputs));
  OwnedTensor dHidden, dWeight, dBias;
  if (inputs.variant != Variant::lossOnly) {
    TW_ASSIGN_OR_RETURN(dHidden, allocateTensor(device, f32, xShape));
    TW_ASSIGN_OR_RETURN(dWeight, allocateTensor(device, f32, wShape));
    if (bias.ref.data) {
      TW_ASSIGN_OR_RETURN(dBias, allocateTensor(device, f32, {inputs.classes}));
    }
  }
  LinearCrossEntropyTensors t = {};
  t.hidden = hidden.ref, t.weight = weight.ref, t.bias = bias.ref, t.label = common.label.ref;
  t.gradOutput = common.gradOutput.ref, t.classWeight = common.classWeight.ref;
  t.gradLse = common.gradLse.ref, t.gradEntropy = common.gradEntropy.ref;
  t.loss = common.loss.ref, t.lse = common.lse.ref, t.entropy = common.entropy.ref;
  t.argmax = common.argmax.ref, t.correct = common.correct.ref, t.monitored = common.monitored.ref;
  t.dHidden = dHidden.ref, t.dWeight = dWeight.ref, t.dBias = dBias.ref;
  LinearCrossEntropyOptions options;
  static_cast<LossOptions &>(options) = inputs;
  options.variant = inputs.variant;
  options.workspaceLimit = inputs.workspaceLimit;
  options.lmcl = inputs.lmcl;
  options.tf32 = inputs.type.tf32;
  options.flushSmallProbabilities = inputs.flushSmallProbabilities;

  RunResults run;
  TW_ASSIGN_OR_RETURN(run.report, linearCrossEntropy(runtime, t, options, nullptr));
  TW_RETURN_IF_ERROR(addCommon(device, inputs, common, run));
  if (dHidden.ref.data) run.results.push_back({"dx.npy", xShape, dHidden});
  if (dWeight.ref.data) run.results.push_back({"dw.npy", wShape, dWeight});
  if (dBias.ref.data) run.results.push_back({"db.npy", {inputs.classes}, dBias});
  return run;
}

StatusOr<RunResults> runEval(Runtime &runtime, const RunInputs &inputs) {
  Device &device = runtime.device();
  const std::vector<int64_t> shape = {inputs.rows, inputs.classes};
  TW_ASSIGN_OR_RETURN(const OwnedTensor hidden, uploadFile(device, *inputs.hidden, inputs.type.element));
  TW_ASSIGN_OR_RETURN(const OwnedTensor weight, uploadFile(device, *inputs.weight, inputs.type.element));
  TW_ASSIGN_OR_RETURN(const OwnedTensor bias, uploadVector(device, ElementType::f32, inputs.bias));
  TW_ASSIGN_OR_RETURN(const OwnedTensor logits, allocateTensor(device, ElementType::f32, shape));
  RunResults run;
  TW_ASSIGN_OR_RETURN(
      run.report, linearLogits(runtime, {hidden.ref, weight.ref, bias.ref, logits.ref},
                               {inputs.logitScale, inputs.softcap, inputs.lmcl, inputs.type.tf32}, nullptr));
  run.results.push_back({"logits.npy", shape, logits});
  return run;
}

StatusOr<RunResults> runOverLogits(Runtime &runtime, const RunInputs &inputs) {
  Device &device = runtime.device();
  TW_ASSIGN_OR_RETURN(const OwnedTensor logits, uploadFile(device, *inputs.logits, inputs.type.element));
  TW_ASSIGN_OR_RETURN(CommonTensors common, commonTensors(device, inputs));
  OwnedTensor dLogits;
  if (inputs.variant != Variant::lossOnly && inputs.type.element == ElementType::f32) {
    dLogits = logits; // replaced in place
  } else if (inputs.variant != Variant::lossOnly) {
    TW_ASSIGN_OR_RETURN(dLogits, allocateTensor(device, ElementType::f32, {inputs.rows, inputs.classes}));
  }
  CrossEntropyTensors t = {logits.ref,      common.label.ref, common.gradOutput.ref,
                           common.loss.ref, common.lse.ref,   dLogits.ref};
  t.classWeight = common.classWeight.ref, t.gradLse = common.gradLse.ref;
  t.gradEntropy = common.gradEntropy.ref, t.entropy = common.entropy.ref, t.argmax = common.argmax.ref;
  t.correct = common.correct.ref, t.monitored = common.monitored.ref;

  TW_ASSIGN_OR_RETURN(const int64_t needed, crossEntropyWorkspaceBytes(t, inputs));
  if (inputs.workspaceLimit > 0 && needed > inputs.workspaceLimit)
    return userError(fmt::format("expected --workspace-limit of at least {} for these logits, found {}",
                                 exactByteText(needed), exactByteText(inputs.workspaceLimit)));
  RunResults run;
  TW_ASSIGN_OR_RETURN(run.report, crossEntropy(runtime, t, inputs, nullptr));
  TW_RETURN_IF_ERROR(addCommon(device, inputs, common, run));
  if (inputs.variant != Variant::lossOnly)
    run.results.push_back({"dlogits.npy", {inputs.rows, inputs.classes}, dLogits});
  return run;
}

} // namespace tilewright
