#include "autotune/tuning_cache.h"
#include "bindings/c/linear_cross_entropy.h"
#include "kernels/tune_linear_cross_entropy.h"

using namespace tilewright;
using namespace tilewright::c;

namespace {

constexpr int kMaxConfigurations = 1000;

StatusOr<TunerOptions> tunerOptions(const tw_tuning_options *given) {
  TunerOptions tuner;
  if (!given) return tuner;
  TW_RETURN_IF_ERROR(checkStruct(given, "tuning"));
  if (given->limit < 0 || given->limit > kMaxConfigurations)
    return userError("limit: expected 0 to " + std::to_string(kMaxConfigurations) + ", found " +
                     std::to_string(given->limit));
  if (given->limit > 0) tuner.limit = given->limit;
  void *const userData = given->user_data;
  if (auto *shouldStop = given->should_stop) tuner.stop = [=] { return shouldStop(userData) != 0; };
  if (auto *progress = given->progress)
    tuner.progress = [=](const TuningProgress &now) {
      const tw_tuning_progress told = {sizeof told, now.step.c_str(), now.best.c_str(),
                                       now.tried,   now.planned,      now.milliseconds};
      progress(userData, &told);
    };
  return tuner;
}

} // namespace

tw_code tw_tune_linear_cross_entropy(tw_runtime *runtime, const tw_linear_cross_entropy_tensors *tensors,
                                     const tw_linear_cross_entropy_options *options,
                                     const tw_tuning_options *tuning, void *stream, tw_error **error) {
  return guarded(error, [&]() -> Status {
    if (!runtime) return expected("runtime");
    LinearCrossEntropyTensors t;
    LinearCrossEntropyOptions o;
    TW_RETURN_IF_ERROR(readTensors(tensors, runtime->place, Use::run, t));
    TW_RETURN_IF_ERROR(readOptions(options, o));
    if (!o.configuration.empty())
      return userError("configuration: expected none for tuning, found '" + o.configuration + "'");
    TW_ASSIGN_OR_RETURN(TunerOptions tuner, tunerOptions(tuning));
    tuner.workspaceLimit = o.workspaceLimit;
    TW_ASSIGN_OR_RETURN(const TuningOutcome outcome,
                        tuneLinearCrossEntropy(*runtime->runtime, t, o, tuner, stream));
    TuningCache::shared(runtime->runtime->environment().cacheDir)->store(outcome.record);
    return {};
  });
}
