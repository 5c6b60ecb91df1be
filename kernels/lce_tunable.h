#pragma once

#include <memory>

#include "autotune/tunable.h"
#include "kernels/lce/search.h"
#include "kernels/lce_check.h"
#include "kernels/linear_cross_entropy.h"
#include "runtime/runtime.h"

namespace tilewright::lce {

/// A call of linearCrossEntropy, to be tuned. Its outputs are overwritten again and again.
class LceTunable final : public Tunable {
public:
  static StatusOr<std::unique_ptr<LceTunable>> make(Runtime &runtime, const Problem &problem,
                                                    const LinearCrossEntropyTensors &tensors,
                                                    const LinearCrossEntropyOptions &options, Stream stream);

  TuningKey key() const override { return tuningKey(problem_, runtime_.device().info()); }
  Device &device() const override { return runtime_.device(); }
  Stream stream() const override { return stream_; }
  const SearchSpace &space() const override { return space_; }
  const CostModel &costModel() const override { return model_; }
  std::vector<SearchStep> steps() const override { return searchSteps(problem_); }
  Configuration heuristic() const override { return configurationOf(heuristic_, problem_); }
  std::vector<Configuration> starts() const override {
    return searchStarts(problem_, heuristic_, space_, model_);
  }
  int64_t workspaceBytes(const Configuration &configuration) const override;
  Status check(const Configuration &configuration) override;
  Status run(const Configuration &configuration) override;

private:
  LceTunable(Runtime &runtime, Stream stream, const Problem &problem, const Config &heuristic,
             const LinearCrossEntropyOptions &options);

  Runtime &runtime_;
  Stream stream_;
  Problem problem_;
  Config heuristic_;
  LinearCrossEntropyOptions options_;
  SearchSpace space_;
  CostModel model_;
  LinearCrossEntropyTensors tensors_;
  Buffer lse_; ///< where the caller has no use for it; the check has
  std::unique_ptr<Check> check_;
};

} // namespace tilewright::lce
