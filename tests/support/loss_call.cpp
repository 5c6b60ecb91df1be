#include "tests/support/loss_call.h"

#include "tests/support/device_tensor.h"

namespace tilewright::test {

std::string LossCall::str() const {
  std::string text = std::string(reductionName(reduction)) + " " + variantName(variant) + " labels " +
                     elementName(label) +
                     (gradOutput.empty() ? "" : " times " + std::to_string(gradOutput.size())) +
                     (wantsDHidden ? " dx" : "") + (wantsDWeight ? " dw" : "");
  if (gradient) text += std::string(" as ") + elementName(*gradient);
  if (apart) text += ", forward and backward apart";
  if (gap > 0) text += " gap " + std::to_string(gap);
  if (workspaceLimit > 0) text += " limit " + std::to_string(workspaceLimit);
  return text;
}

ReferenceOptions referenceOptions(const LossCase &data, const LossCall &call) {
  ReferenceOptions options;
  static_cast<LossOptions &>(options) = call;
  options.ignoreIndex = data.ignoreIndex;
  options.bias.assign(data.bias.begin(), data.bias.end());
  options.classWeight.assign(data.classWeight.begin(), data.classWeight.end());
  options.lmcl = call.lmcl;
  options.gradOutput = call.gradOutput;
  options.gradLse = call.gradLse;
  options.gradEntropy = call.gradEntropy;
  return options;
}

ReferenceResult referenceFor(const LossCase &data, const LossCall &call) {
  ReferenceOptions options = referenceOptions(data, call);
  options.gradients = call.wantsDHidden || call.wantsDWeight || call.wantsDBias;
  return referenceLinearCrossEntropy(data.x.data(), data.w.data(), data.label.data(), data.rows, data.hidden,
                                     data.classes, options);
}

ReferenceResult logitsReferenceFor(const LossCase &data, const LossCall &call) {
  return referenceCrossEntropy(data.x.data(), data.label.data(), data.rows, data.classes,
                               referenceOptions(data, call));
}

} // namespace tilewright::test
