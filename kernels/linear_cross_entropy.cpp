#include "kernels/linear_cross_entropy.h"

#include <chrono>

#include "autotune/tuning_cache.h"
#include "compiler/base/elapsed.h"
#include "compiler/base/log.h"
#include "kernels/lce/kernel_set.h"
#include "kernels/lce/launches.h"
#include "kernels/lce/plan.h"
#include "kernels/lce/search.h"
#include "kernels/lce_execution.h"
#include "kernels/loss/validate.h"
#include "kernels/tune_linear_cross_entropy.h"

namespace tilewright {
namespace {

using namespace lce;

std::string describe(const Problem &problem, const Config &config, const DeviceInfo &device) {
  const bool falls = device.warpgroups && !problem.aligned;
  return config.str() + (falls ? "; portable code, as rows do not begin at multiples of 16 bytes" : "");
}

} // namespace

StatusOr<LossReport> lce::execute(Runtime &runtime, const Problem &asked, const Config &config,
                                  const LinearCrossEntropyTensors &tensors,
                                  const LinearCrossEntropyOptions &options, Stream stream) {
  const Problem problem = asVariant(asked, config.variant);
  Device &device = runtime.device();
  LossReport report;
  report.variant = config.variant;
  report.configuration = describe(problem, config, device.info());
  report.workspaceBytes = layOut(problem, config, nullptr).bytes;
  auto start = std::chrono::steady_clock::now();
  TW_ASSIGN_OR_RETURN(const KernelSet kernels, makeKernels(runtime, problem, config));
  report.compileMilliseconds = millisecondsSince(start);

  start = std::chrono::steady_clock::now();
  TW_ASSIGN_OR_RETURN(const Buffer memory, device.allocate(report.workspaceBytes, stream));
  const Workspace workspace = layOut(problem, config, memory.data(), lentMemory(tensors.dWeight));
  TW_RETURN_IF_ERROR(Launches(device, stream, problem, config, kernels, tensors, options, workspace).run());
  TW_RETURN_IF_ERROR(reportNow(device, stream));
  if (problem.terms.classWeight)
    TW_RETURN_IF_ERROR(checkClassWeights(device, stream, workspace.firstBadWeight, problem.classes));
  report.runMilliseconds = millisecondsSince(start);
  return report;
}

namespace {

/// Tunes with this call's data; whatever goes wrong, the call itself goes on.
TuningCache::Record tuneNow(Runtime &runtime, TuningCache &cache, const TuningKey &key,
                            const LinearCrossEntropyTensors &tensors,
                            const LinearCrossEntropyOptions &options, Stream stream) {
  const auto tuneCall = [&]() -> StatusOr<TuningRecord> {
    TunerOptions tuner;
    tuner.workspaceLimit = options.workspaceLimit;
    TW_ASSIGN_OR_RETURN(TuningOutcome outcome,
                        tuneLinearCrossEntropy(runtime, tensors, options, tuner, stream));
    return std::move(outcome.record);
  };
  const auto accept = [](const TuningRecord &) { return true; };
  StatusOr<TuningCache::Record> record = cache.obtain(key, options.workspaceLimit, accept, tuneCall);
  if (record.ok()) return *record;
  logWarning("linear cross entropy is not tuned: " + record.status().message());
  return nullptr;
}

/// A tuned configuration where there is one and the environment lets us use it, else a planned one.
StatusOr<Config> chooseConfig(Runtime &runtime, const Problem &problem,
                              const LinearCrossEntropyTensors &tensors,
                              const LinearCrossEntropyOptions &options, Stream stream) {
  const Environment &environment = runtime.environment();
  if (environment.autotune != AutotuneMode::off && options.variant != Variant::recompute) {
    TuningCache &cache = *TuningCache::shared(environment.cacheDir);
    const TuningKey key = lce::tuningKey(problem, runtime.device().info());
    const int64_t limit = options.workspaceLimit;
    TuningCache::Record record = cache.find(key, limit);
    const bool mayTune = environment.autotune == AutotuneMode::write && !runtime.device().isCapturing(stream);
    const bool mayOverwrite = problem.rows > 0 && !options.accumulate; // the outputs, with results of tuning
    if (!record && mayTune && mayOverwrite && !cache.failure(key, limit))
      record = tuneNow(runtime, cache, key, tensors, options, stream);
    if (record)
      if (auto config = tunedConfig(*record, problem, options.variant, limit, runtime.device().info()))
        return *config;
  }
  return plan(problem, options.variant, options.workspaceLimit, runtime.device().info());
}

} // namespace

StatusOr<LossReport> linearCrossEntropy(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                                        const LinearCrossEntropyOptions &options, Stream stream) {
  TW_ASSIGN_OR_RETURN(const Problem problem, validate(tensors, options, runtime.device().info()));
  TW_ASSIGN_OR_RETURN(const Config config, chooseConfig(runtime, problem, tensors, options, stream));
  return execute(runtime, problem, config, tensors, options, stream);
}

} // namespace tilewright
