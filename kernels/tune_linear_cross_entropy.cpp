#include "kernels/tune_linear_cross_entropy.h"

#include "kernels/lce_execution.h"
#include "kernels/lce_tunable.h"

namespace tilewright {

StatusOr<TuningKey> tuningKey(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                              const LinearCrossEntropyOptions &options) {
  TW_ASSIGN_OR_RETURN(const lce::Problem problem, lce::validate(tensors, options));
  return lce::tuningKey(problem, runtime.device().info());
}

StatusOr<TuningOutcome> tuneLinearCrossEntropy(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                                               const LinearCrossEntropyOptions &options,
                                               const TunerOptions &tuner, Stream stream) {
  TW_ASSIGN_OR_RETURN(const lce::Problem problem, lce::validate(tensors, options));
  TW_ASSIGN_OR_RETURN(const std::unique_ptr<lce::LceTunable> tunable,
                      lce::LceTunable::make(runtime, problem, tensors, options, stream));
  return tune(*tunable, tuner);
}

} // namespace tilewright
