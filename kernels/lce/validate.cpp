#include "kernels/loss/validate.h"

#include "kernels/lce_execution.h"

namespace tilewright::lce {
namespace {

Status checkGradients(const LinearCrossEntropyTensors &t, Problem &p) {
  if (t.dHidden.data) {
    TW_RETURN_IF_ERROR(checkGradient(t.dHidden, "dHidden", p.rows, p.hidden, p.element));
    p.dHidden = t.dHidden.element;
  }
  if (t.dWeight.data) {
    TW_RETURN_IF_ERROR(checkGradient(t.dWeight, "dWeight", p.classes, p.hidden, p.element));
    p.dWeight = t.dWeight.element;
  }
  if (t.dBias.data) {
    if (!t.bias.data) return userError("dBias is the gradient of a bias, and there is none; leave it null");
    TW_RETURN_IF_ERROR(checkBias(t.dBias, "dBias", p.classes, t.bias.element));
    p.dBias = t.dBias.element;
  }
  return Status();
}

constexpr int64_t kAlignment = 16; ///< bytes, as `CompileOptions::alignedMatrices` promises

/// Of a dense dW that is not added to, which tells nobody anything before its values are stored.
int64_t lentBytesOf(const TensorRef &dWeight, bool accumulate) {
  if (!dWeight.data || accumulate || dWeight.rowStride != dWeight.sizes[1]) return 0;
  const char *end = static_cast<const char *>(dWeight.data) +
                    dWeight.sizes[0] * dWeight.sizes[1] * elementBytes(dWeight.element);
  return std::max<int64_t>(0, end - static_cast<const char *>(lentMemory(dWeight)));
}

/// A tensor that is not there is no obstacle.
bool isAligned(const TensorRef &matrix) {
  return reinterpret_cast<uintptr_t>(matrix.data) % kAlignment == 0 &&
         matrix.rowStride * elementBytes(matrix.element) % kAlignment == 0;
}

} // namespace

StatusOr<Problem> validate(const LinearCrossEntropyTensors &t, const LinearCrossEntropyOptions &options,
                           const DeviceInfo &device) {
  TW_RETURN_IF_ERROR(checkOptions(options, t.classWeight.data != nullptr));
  if (options.lmcl) TW_RETURN_IF_ERROR(checkMargin(*options.lmcl, options, t.bias.data != nullptr));
  TW_RETURN_IF_ERROR(checkLinearInputs(t.hidden, t.weight));
  Problem p;
  p.rows = t.hidden.sizes[0], p.hidden = t.hidden.sizes[1], p.classes = t.weight.sizes[0];
  p.element = t.hidden.element;
  TW_RETURN_IF_ERROR(checkLossTensors({t.label, t.gradOutput, t.loss, t.lse}, p.rows, options.reduction));
  const OptionTensors optional = {t.classWeight, t.gradLse, t.gradEntropy, t.entropy,
                                  t.argmax,      t.correct, t.monitored};
  TW_RETURN_IF_ERROR(checkOptionTensors(optional, p.rows, p.classes));
  if (t.bias.data) TW_RETURN_IF_ERROR(checkBias(t.bias, "bias", p.classes, p.element));
  TW_RETURN_IF_ERROR(checkGradients(t, p));
  TW_RETURN_IF_ERROR(checkTf32(options.tf32, p.element));
  p.tf32 = options.tf32;
  p.quietZeros = options.quietZeros;
  p.tensorCores = device.sharedBytes > 0;
  p.label = t.label.element;
  p.reduction = options.reduction;
  p.wantsLse = t.lse.data != nullptr;
  p.upstream = upstreamOf(t.gradOutput, p.rows, options.reduction);
  p.terms = termsOf(options, optional);
  if (t.bias.data) p.terms.bias = t.bias.element;
  p.terms.margin = options.lmcl.has_value();
  p.outputs = outputsOf(optional);
  p.accumulate = options.accumulate;
  p.lentBytes = lentBytesOf(t.dWeight, options.accumulate);
  // Rows in the workspace are as long as those of the hidden states, or padded.
  p.aligned = p.hidden * elementBytes(p.element) % kAlignment == 0 && isAligned(t.weight) &&
              isAligned(t.dHidden) && isAligned(t.dWeight);
  if (options.workspaceLimit < 0)
    return userError("the workspace limit must be 0 (none) or a number of bytes, found " +
                     std::to_string(options.workspaceLimit));
  if (options.variant == Variant::lossOnly && p.wantsGradients())
    return userError(
        "variant loss_only computes no gradient; leave dHidden and dWeight null or choose another variant");
  return p;
}

} // namespace tilewright::lce
