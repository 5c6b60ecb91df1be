#include "kernels/lce_tunable.h"

#include "kernels/lce_execution.h"

namespace tilewright::lce {

LceTunable::LceTunable(Runtime &runtime, Stream stream, const Problem &problem, const Config &heuristic,
                       const LinearCrossEntropyOptions &options)
    : runtime_(runtime), stream_(stream), problem_(problem), heuristic_(heuristic), options_(options),
      space_(searchSpace(problem, heuristic, runtime.device().target().kind)),
      model_(lce::costModel(problem, heuristic, runtime.device().info())) {}

StatusOr<std::unique_ptr<LceTunable>> LceTunable::make(Runtime &runtime, const Problem &problem,
                                                       const LinearCrossEntropyTensors &tensors,
                                                       const LinearCrossEntropyOptions &options,
                                                       Stream stream) {
  Device &device = runtime.device();
  TW_ASSIGN_OR_RETURN(const Config heuristic,
                      plan(problem, options.variant, options.workspaceLimit, device.info()));
  std::unique_ptr<LceTunable> tunable(new LceTunable(runtime, stream, problem, heuristic, options));
  tunable->tensors_ = tensors;
  if (!tensors.lse.data) {
    TW_ASSIGN_OR_RETURN(tunable->lse_, device.allocate(4 * problem.rows, stream));
    tunable->tensors_.lse = TensorRef::vector(tunable->lse_.data(), ElementType::f32, problem.rows);
  }
  tunable->problem_.wantsLse = true;
  TW_ASSIGN_OR_RETURN(Check check,
                      Check::make(device, stream, tunable->problem_, tunable->tensors_, options));
  tunable->check_ = std::make_unique<Check>(std::move(check));
  return tunable;
}

int64_t LceTunable::workspaceBytes(const Configuration &configuration) const {
  const StatusOr<Config> config = configOf(configuration, problem_);
  return config.ok() ? layOut(problem_, *config, nullptr).bytes : 0;
}

Status LceTunable::run(const Configuration &configuration) {
  TW_ASSIGN_OR_RETURN(const Config config, configOf(configuration, problem_));
  return execute(runtime_, problem_, config, tensors_, options_, stream_).status();
}

Status LceTunable::check(const Configuration &configuration) {
  TW_RETURN_IF_ERROR(run(configuration));
  TW_RETURN_IF_ERROR(runtime_.device().synchronize(stream_));
  return check_->check();
}

} // namespace tilewright::lce
