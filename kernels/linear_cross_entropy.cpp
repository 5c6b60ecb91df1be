#include "kernels/linear_cross_entropy.h"

#include "autotune/tuning_cache.h"
#include "kernels/lce/search.h"
#include "kernels/lce_call.h"
#include "kernels/one_call.h"
#include "kernels/tune_linear_cross_entropy.h"

namespace tilewright {
namespace {

using namespace lce;

std::string describe(const Request &request, const Config &config, const DeviceInfo &device) {
  const bool falls = device.warpgroups && !request.aligned;
  return config.str() + (falls ? "; portable code, as rows do not begin at multiples of 16 bytes" : "");
}

/// The pinned configuration, else a tuned one where there is one and the environment lets us use it, else a
/// planned one.
StatusOr<Config> chooseConfig(Runtime &runtime, const Request &request,
                              const LinearCrossEntropyOptions &options) {
  const DeviceInfo &device = runtime.planningInfo();
  const Environment &environment = runtime.environment();
  // A bundle has the kernels of planned configurations.
  const bool isTunable = options.configuration.empty() && options.variant != Variant::recompute;
  if (isTunable && environment.autotune != AutotuneMode::off && !runtime.bundles()) {
    const TuningCache::Record record =
        TuningCache::shared(environment.cacheDir)->find(tuningKey(request, device), options.workspaceLimit);
    if (record)
      if (auto config = tunedConfig(*record, request, options.variant, options.workspaceLimit, device))
        return *config;
  }
  return pinnedOrPlanned(request, options, device);
}

/// The calls that were prepared last; of forward and of backward calls apart.
template <CallPass pass>
struct PreparedCalls
    : PreparedCallCache<PreparedLinearCrossEntropy, LinearCrossEntropyTensors, LinearCrossEntropyOptions> {};

template <CallPass pass>
StatusOr<LossReport> callOnce(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                              const LinearCrossEntropyOptions &options, Stream stream) {
  const auto prepare = [&]() -> StatusOr<PreparedLinearCrossEntropy> {
    if (pass == CallPass::fused) TW_RETURN_IF_ERROR(tuneIfAsked(runtime, tensors, options, stream));
    return PreparedLinearCrossEntropy::prepare(runtime, tensors, options, pass);
  };
  return runtime.attached<PreparedCalls<pass>>().call(runtime, tensors, options, stream, prepare);
}

} // namespace

StatusOr<PreparedLinearCrossEntropy>
PreparedLinearCrossEntropy::prepare(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                                    const LinearCrossEntropyOptions &options, CallPass pass) {
  const DeviceInfo &device = runtime.planningInfo();
  TW_ASSIGN_OR_RETURN(const Request request, requestFor(tensors, options, device, pass));
  TW_ASSIGN_OR_RETURN(const Config config, chooseConfig(runtime, request, options));
  PreparedLinearCrossEntropy prepared;
  TW_ASSIGN_OR_RETURN(prepared.call_, prepareCall(runtime, request, config, options));
  prepared.variant_ = config.variant;
  prepared.isAligned_ = request.aligned;
  prepared.description_ = describe(request, config, device);
  if (config.variant != Variant::recompute) prepared.configuration_ = configurationOf(config, request).str();
  return prepared;
}

Status PreparedLinearCrossEntropy::run(const LinearCrossEntropyTensors &tensors, const CallMemory &memory,
                                       Stream stream) const {
  return call_->run(TensorsById(tensors), memory, stream);
}

bool PreparedLinearCrossEntropy::fits(const LinearCrossEntropyTensors &tensors) const {
  return call_->fits(TensorsById(tensors)) && (isAligned_ || !lce::areAligned(tensors));
}

StatusOr<LossReport> linearCrossEntropy(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                                        const LinearCrossEntropyOptions &options, Stream stream) {
  return callOnce<CallPass::fused>(runtime, tensors, options, stream);
}

StatusOr<LossReport> linearCrossEntropyBackward(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                                                const LinearCrossEntropyOptions &options, Stream stream) {
  return callOnce<CallPass::backward>(runtime, tensors, options, stream);
}

bool operator==(const LinearCrossEntropyOptions &a, const LinearCrossEntropyOptions &b) {
  return static_cast<const LossOptions &>(a) == static_cast<const LossOptions &>(b) &&
         a.variant == b.variant && a.workspaceLimit == b.workspaceLimit && a.lmcl == b.lmcl &&
         a.tf32 == b.tf32 && a.flushSmallProbabilities == b.flushSmallProbabilities &&
         a.accumulate == b.accumulate && a.configuration == b.configuration;
}

} // namespace tilewright
