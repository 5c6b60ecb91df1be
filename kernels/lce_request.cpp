#include <algorithm>

#include "kernels/lce/tensors.h"
#include "kernels/lce_call.h"
#include "kernels/loss/validate.h"

namespace tilewright::lce {
namespace {

Status checkGradients(const LinearCrossEntropyTensors &t, Request &p) {
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

/// Bytes of a dense dW that is not added to: nobody is told what it holds before its values are stored. Its
/// first bytes, up to a multiple of 256, are left out, wherever it begins.
int64_t borrowedBytesOf(const TensorRef &dWeight, bool accumulate) {
  if (!dWeight.data || accumulate || dWeight.rowStride != dWeight.sizes[1]) return 0;
  const int64_t bytes = saturatingProduct(dWeight.sizes[0] * elementBytes(dWeight.element), dWeight.sizes[1]);
  return std::max<int64_t>(0, bytes - (kTensorAlignment - 1));
}

/// A tensor that is not there is no obstacle.
bool isAligned(const TensorRef &matrix) {
  return reinterpret_cast<uintptr_t>(matrix.data) % kAlignment == 0 &&
         matrix.rowStride * elementBytes(matrix.element) % kAlignment == 0;
}

/// What a backward call has beside the inputs and gradients: the lse of a forward call, and no output of the
/// rows.
Status checkBackward(const LinearCrossEntropyTensors &t, const Request &r) {
  for (const TensorRef *output : {&t.loss, &t.lse, &t.entropy, &t.argmax, &t.correct, &t.monitored})
    if (output->data)
      return userError(
          "a backward call computes gradients alone; leave loss, lse, entropy, argmax, correct and "
          "monitored null");
  if (!r.wantsGradients()) return userError("a backward call needs dHidden, dWeight or dBias");
  return checkRowValues(t.savedLse, "savedLse", r.rows);
}

/// All ranks' exchanged numbers are numbered with 32 bits, too.
Status checkShard(const VocabularyShard &shard, const Request &r, Variant variant) {
  const auto expected = [](const char *what, int64_t found) {
    return userError(std::string("a shard's ") + what + ", found " + std::to_string(found));
  };
  TW_RETURN_IF_ERROR(checkSizes(r.rows, shard.all));
  if (shard.ranks < 1) return expected("number of ranks must be positive", shard.ranks);
  if (shard.rank < 0 || shard.rank >= shard.ranks)
    return expected("rank must be one of its ranks", shard.rank);
  if (shard.first < 0 || shard.first > shard.all - r.classes)
    return expected("classes must lie among all classes", shard.first);
  if (shard.widest < r.classes || shard.widest > shard.all)
    return expected("widest number of classes must be that of some rank", shard.widest);
  if (variant == Variant::recompute)
    return userError("variant recompute is not offered for a shard: E waits for what the ranks gather");
  return Status();
}

/// Facts of the tensors that a plan depends on.
void describeMemory(const LinearCrossEntropyTensors &t, bool accumulate, Request &r) {
  r.given = {t.lse.data != nullptr, t.entropy.data != nullptr, t.argmax.data != nullptr,
             t.correct.data != nullptr};
  r.strides = {t.hidden.rowStride, t.weight.rowStride, t.dHidden.rowStride, t.dWeight.rowStride};
  r.borrowedBytes = borrowedBytesOf(t.dWeight, accumulate);
  if (r.isShard()) r.borrowedBytes = 0; // which recompute alone would use
  r.aligned = areAligned(t);
}

} // namespace

bool areAligned(const LinearCrossEntropyTensors &t) {
  // Rows in the workspace are as long as those of the hidden states, or padded.
  return t.hidden.sizes[1] * elementBytes(t.hidden.element) % kAlignment == 0 && isAligned(t.weight) &&
         isAligned(t.dHidden) && isAligned(t.dWeight);
}

StatusOr<Request> requestFor(const LinearCrossEntropyTensors &t, const LinearCrossEntropyOptions &options,
                             const DeviceInfo &device, CallPass pass, const VocabularyShard &shard) {
  TW_RETURN_IF_ERROR(checkOptions(options, t.classWeight.data != nullptr));
  if (options.lmcl) TW_RETURN_IF_ERROR(checkMargin(*options.lmcl, options, t.bias.data != nullptr));
  TW_RETURN_IF_ERROR(checkLinearInputs(t.hidden, t.weight));
  Request r;
  r.pass = pass;
  r.rows = t.hidden.sizes[0], r.hidden = t.hidden.sizes[1], r.classes = t.weight.sizes[0];
  r.element = t.hidden.element;
  r.shard = shard;
  if (r.isShard()) TW_RETURN_IF_ERROR(checkShard(shard, r, options.variant));
  TW_RETURN_IF_ERROR(checkLossTensors({t.label, t.gradOutput, t.loss, t.lse}, r.rows, options.reduction,
                                      pass == CallPass::fused));
  const OptionTensors optional = {t.classWeight, t.gradLse, t.gradEntropy, t.entropy,
                                  t.argmax,      t.correct, t.monitored};
  TW_RETURN_IF_ERROR(checkOptionTensors(optional, r.rows, r.allClasses()));
  if (t.bias.data) TW_RETURN_IF_ERROR(checkBias(t.bias, "bias", r.classes, r.element));
  TW_RETURN_IF_ERROR(checkGradients(t, r));
  if (pass == CallPass::backward) TW_RETURN_IF_ERROR(checkBackward(t, r));
  TW_RETURN_IF_ERROR(checkTf32(options.tf32, r.element));
  r.tf32 = options.tf32;
  r.flushSmallProbabilities = options.flushSmallProbabilities;
  r.tensorCores = device.sharedBytes > 0;
  r.label = t.label.element;
  r.reduction = options.reduction;
  r.upstream = upstreamOf(t.gradOutput, r.rows, options.reduction);
  r.terms = termsOf(options, optional);
  if (t.bias.data) r.terms.bias = t.bias.element;
  r.terms.margin = options.lmcl.has_value();
  r.outputs = outputsOf(optional);
  r.accumulate = options.accumulate;
  describeMemory(t, options.accumulate, r);
  if (options.workspaceLimit < 0)
    return userError("the workspace limit must be 0 (none) or a number of bytes, found " +
                     std::to_string(options.workspaceLimit));
  if (options.variant == Variant::lossOnly && r.wantsGradients())
    return userError(
        "variant loss_only computes no gradient; leave dHidden and dWeight null or choose another variant");
  return r;
}

} // namespace tilewright::lce
