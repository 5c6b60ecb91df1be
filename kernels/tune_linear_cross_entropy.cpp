#include "kernels/tune_linear_cross_entropy.h"

#include "kernels/lce_execution.h"
#include "kernels/lce_tunable.h"

namespace tilewright {
namespace {

/// The call without its options, which change no time by more than a few percent: they share one record.
std::pair<LinearCrossEntropyTensors, LinearCrossEntropyOptions> plain(const LinearCrossEntropyTensors &t,
                                                                      const LinearCrossEntropyOptions &o) {
  LinearCrossEntropyOptions options;
  options.reduction = o.reduction;
  options.ignoreIndex = o.ignoreIndex;
  options.variant = o.variant;
  options.workspaceLimit = o.workspaceLimit;
  options.tf32 = o.tf32;
  return {{t.hidden, t.weight, t.label, t.gradOutput, t.loss, t.lse, t.dHidden, t.dWeight}, options};
}

} // namespace

StatusOr<TuningKey> tuningKey(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                              const LinearCrossEntropyOptions &options) {
  TW_ASSIGN_OR_RETURN(const lce::Problem problem, lce::validate(tensors, options, runtime.device().info()));
  return lce::tuningKey(problem, runtime.device().info());
}

StatusOr<TuningOutcome> tuneLinearCrossEntropy(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                                               const LinearCrossEntropyOptions &options,
                                               const TunerOptions &tuner, Stream stream) {
  if (options.variant == Variant::recompute)
    return userError("variant recompute has nothing to be tuned; tune without a variant");
  if (options.accumulate) return userError("tuning runs a call again and again; tune it without accumulate");
  TW_RETURN_IF_ERROR(lce::validate(tensors, options, runtime.device().info()).status());
  const auto [plainTensors, plainOptions] = plain(tensors, options);
  TW_ASSIGN_OR_RETURN(const lce::Problem problem,
                      lce::validate(plainTensors, plainOptions, runtime.device().info()));
  TW_ASSIGN_OR_RETURN(const std::unique_ptr<lce::LceTunable> tunable,
                      lce::LceTunable::make(runtime, problem, plainTensors, plainOptions, stream));
  return tune(*tunable, tuner);
}

} // namespace tilewright
