#include "kernels/tune_linear_cross_entropy.h"

#include <algorithm>
#include <vector>

#include "autotune/tuning_cache.h"
#include "compiler/base/log.h"
#include "kernels/lce/search.h"
#include "kernels/lce_call.h"
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

/// A CPU's clock needs no long turns to settle.
TunerOptions onDevice(TunerOptions tuner, const Device &device) {
  constexpr double kCpuTurn = 20;
  if (device.target().kind == TargetKind::cpu)
    tuner.measure.turnMilliseconds = std::min(tuner.measure.turnMilliseconds, kCpuTurn);
  return tuner;
}

} // namespace

StatusOr<TuningKey> tuningKey(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                              const LinearCrossEntropyOptions &options) {
  TW_ASSIGN_OR_RETURN(const lce::Request request, lce::requestFor(tensors, options, runtime.device().info()));
  return lce::tuningKey(request, runtime.device().info());
}

StatusOr<TuningOutcome> tuneLinearCrossEntropy(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                                               const LinearCrossEntropyOptions &options,
                                               const TunerOptions &tuner, Stream stream) {
  if (options.variant == Variant::recompute)
    return userError("variant recompute has nothing to be tuned; tune without a variant");
  if (options.accumulate) return userError("tuning runs a call again and again; tune it without accumulate");
  TW_RETURN_IF_ERROR(lce::requestFor(tensors, options, runtime.device().info()).status());
  const auto [plainTensors, plainOptions] = plain(tensors, options);
  TW_ASSIGN_OR_RETURN(const lce::Request request,
                      lce::requestFor(plainTensors, plainOptions, runtime.device().info()));
  TW_ASSIGN_OR_RETURN(const std::unique_ptr<lce::LceTunable> tunable,
                      lce::LceTunable::make(runtime, request, plainTensors, plainOptions, stream));
  return tune(*tunable, onDevice(tuner, runtime.device()));
}

namespace {

/// The call's tensors with outputs of their own in place of the caller's.
StatusOr<LinearCrossEntropyTensors> withOwnOutputs(Device &device, LinearCrossEntropyTensors tensors,
                                                   Stream stream, std::vector<Buffer> &memory) {
  for (TensorRef *output : {&tensors.loss, &tensors.lse, &tensors.dHidden, &tensors.dWeight}) {
    if (!output->data) continue;
    const int64_t elements = output->rank == 2 ? output->sizes[0] * output->rowStride : output->sizes[0];
    TW_ASSIGN_OR_RETURN(Buffer buffer, device.allocate(elements * elementBytes(output->element), stream));
    output->data = buffer.data();
    memory.push_back(std::move(buffer));
  }
  return tensors;
}

} // namespace

Status tuneIfAsked(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                   const LinearCrossEntropyOptions &options, Stream stream) {
  const Environment &environment = runtime.environment();
  if (environment.autotune != AutotuneMode::write || options.variant == Variant::recompute ||
      options.accumulate || !options.configuration.empty() || tensors.hidden.sizes[0] == 0 ||
      runtime.bundles() || runtime.device().isCapturing(stream))
    return {};
  TW_ASSIGN_OR_RETURN(const TuningKey key, tuningKey(runtime, tensors, options));
  TuningCache &cache = *TuningCache::shared(environment.cacheDir);
  const auto tuneCall = [&]() -> StatusOr<TuningRecord> {
    TunerOptions tuner;
    tuner.workspaceLimit = options.workspaceLimit;
    std::vector<Buffer> memory;
    TW_ASSIGN_OR_RETURN(const LinearCrossEntropyTensors own,
                        withOwnOutputs(runtime.device(), tensors, stream, memory));
    TW_ASSIGN_OR_RETURN(TuningOutcome outcome, tuneLinearCrossEntropy(runtime, own, options, tuner, stream));
    return std::move(outcome.record);
  };
  const auto accept = [](const TuningRecord &) { return true; };
  const int64_t limit = options.workspaceLimit;
  if (cache.find(key, limit) || cache.failure(key, limit)) return {};
  const StatusOr<TuningCache::Record> record = cache.obtain(key, limit, accept, tuneCall);
  if (!record.ok()) logWarning("linear cross entropy is not tuned: " + record.status().message());
  return {};
}

} // namespace tilewright
