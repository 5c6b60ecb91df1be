#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "autotune/tunable.h"
#include "kernels/lce/search.h"
#include "kernels/lce_call.h"
#include "kernels/lce_check.h"
#include "kernels/linear_cross_entropy.h"
#include "runtime/runtime.h"

namespace tilewright::lce {

/// A call's tensors and options on a device. Its outputs are overwritten again and again.
struct TunedCall {
  Runtime &runtime;
  Stream stream;
  Request request;
  LinearCrossEntropyTensors tensors;
  LinearCrossEntropyOptions options;
};

/// Of W, which is what a call and each of its products read or write at least.
inline int64_t weightBytes(const Request &request) {
  return request.classes * request.hidden * static_cast<int64_t>(elementBytes(request.element));
}

/// The whole call.
class WholeCall final : public Workload {
public:
  explicit WholeCall(TunedCall &call) : call_(call) {}
  Status compile(const Configuration &configuration) override;
  Status check(const Configuration &configuration) override;
  Status run(const Configuration &configuration) override;
  int64_t workingSetBytes() const override { return weightBytes(call_.request); }

private:
  TunedCall &call_;
  std::optional<Check> check_; ///< made when it is first needed
};

/// One product of a call of a few chunks: enough for every kind of chunk to occur.
class ProductAlone final : public Workload {
public:
  /// `chunkRows` instead of a configuration's.
  ProductAlone(TunedCall &call, ProductKind product, int64_t chunkRows, std::optional<Check> &check)
      : call_(call), product_(product), chunkRows_(chunkRows), check_(check) {}
  Status compile(const Configuration &configuration) override;
  Status check(const Configuration &configuration) override;
  Status prepare(const Configuration &configuration) override;
  Status run(const Configuration &configuration) override;
  int64_t workingSetBytes() const override { return weightBytes(call_.request); }

private:
  StatusOr<Config> configOf(const Configuration &configuration) const;
  /// Makes it this configuration's, whose whole call has then been run.
  Status stage(const Configuration &configuration);
  CallMemory memory() const;
  Status runSteps(int tag) const;

  TunedCall &call_;
  ProductKind product_;
  int64_t chunkRows_;
  std::optional<Check> &check_; ///< shared with the other products
  Configuration staged_;
  Buffer workspace_;
  std::shared_ptr<const PreparedCall> prepared_;
};

/// A call of linearCrossEntropy, to be tuned.
class LceTunable final : public Tunable {
public:
  static StatusOr<std::unique_ptr<LceTunable>> make(Runtime &runtime, const Request &request,
                                                    const LinearCrossEntropyTensors &tensors,
                                                    const LinearCrossEntropyOptions &options, Stream stream);

  TuningKey key() const override { return tuningKey(call_.request, call_.runtime.device().info()); }
  Device &device() const override { return call_.runtime.device(); }
  Stream stream() const override { return call_.stream; }
  const SearchSpace &space() const override { return space_; }
  const CostModel &costModel() const override { return model_; }
  std::vector<SearchStep> steps() override;
  Configuration heuristic() const override { return configurationOf(heuristic_, call_.request); }
  int64_t workspaceBytes(const Configuration &configuration) const override;
  Workload &whole() override { return whole_; }

private:
  LceTunable(TunedCall call, TunedCall excerpt, const Config &heuristic);

  TunedCall call_;
  TunedCall excerpt_; ///< its first rows; on a CPU the first classes and columns of X alone
  Config heuristic_;
  SearchSpace space_;
  CostModel model_;
  Buffer lse_;    ///< where the caller has no use for it; the checks have
  Buffer labels_; ///< of the excerpt, where it has fewer classes
  WholeCall whole_;
  std::optional<Check> excerptCheck_;
  std::map<ProductKind, std::unique_ptr<ProductAlone>> products_;
};

} // namespace tilewright::lce
