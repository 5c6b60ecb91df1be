#include "kernels/lce_tunable.h"

#include <algorithm>

#include "kernels/lce/kernel_set.h"

namespace tilewright::lce {
namespace {

/// Chunks of a call in which every kind occurs: the first, those in the middle, the last.
constexpr int64_t kKindsOfChunks = 3;
// On a CPU a product's speed does not depend on how many rows there are, and fewer are sooner done.
constexpr int64_t kCpuChunkRows = 384;

int64_t excerptChunk(const Config &heuristic, const DeviceInfo &device) {
  return device.sharedBytes > 0 ? heuristic.chunkRows : std::min(heuristic.chunkRows, kCpuChunkRows);
}

/// The call's first rows: enough for each kind of chunk.
TunedCall excerptOf(const TunedCall &call, int64_t chunkRows) {
  TunedCall excerpt = call;
  const bool accumulates = call.problem.dWeight && *call.problem.dWeight == ElementType::f32;
  const int64_t kinds = !call.problem.dWeight ? 1 : accumulates ? kKindsOfChunks - 1 : kKindsOfChunks;
  const int64_t rows = std::min(call.problem.rows, kinds * chunkRows);
  excerpt.problem.rows = rows;
  const auto cut = [&](TensorRef &tensor) {
    if (tensor.data && tensor.sizes[0] == call.problem.rows) tensor = tensor.rows(0, rows);
  };
  LinearCrossEntropyTensors &t = excerpt.tensors;
  cut(t.hidden), cut(t.label), cut(t.lse), cut(t.dHidden);
  if (call.problem.reduction == Reduction::none) cut(t.loss);
  if (call.problem.upstream == Upstream::rows) cut(t.gradOutput);
  return excerpt;
}

Status makeCheck(std::optional<Check> &check, const TunedCall &call) {
  if (check) return {};
  TW_ASSIGN_OR_RETURN(Check made,
                      Check::make(call.runtime, call.stream, call.problem, call.tensors, call.options));
  check.emplace(std::move(made));
  return {};
}

} // namespace

// ---- The whole call ----------------------------------------------------------------------------------

Status WholeCall::compile(const Configuration &configuration) {
  TW_ASSIGN_OR_RETURN(const Config config,
                      configOf(configuration, call_.problem, call_.runtime.device().info()));
  const Problem &p = call_.problem;
  TW_RETURN_IF_ERROR(compileProduct(call_.runtime, p, config, ProductKind::forward));
  if (p.dHidden) TW_RETURN_IF_ERROR(compileProduct(call_.runtime, p, config, ProductKind::dHidden));
  if (p.dWeight) TW_RETURN_IF_ERROR(compileProduct(call_.runtime, p, config, ProductKind::dWeight));
  return {};
}

Status WholeCall::check(const Configuration &configuration) {
  TW_RETURN_IF_ERROR(makeCheck(check_, call_));
  TW_RETURN_IF_ERROR(run(configuration));
  TW_RETURN_IF_ERROR(call_.runtime.device().synchronize(call_.stream));
  return check_->check();
}

Status WholeCall::run(const Configuration &configuration) {
  TW_ASSIGN_OR_RETURN(const Config config,
                      configOf(configuration, call_.problem, call_.runtime.device().info()));
  return execute(call_.runtime, call_.problem, config, call_.tensors, call_.options, call_.stream).status();
}

// ---- A product alone ---------------------------------------------------------------------------------

StatusOr<Config> ProductAlone::configOf(const Configuration &configuration) const {
  TW_ASSIGN_OR_RETURN(Config config,
                      lce::configOf(configuration, call_.problem, call_.runtime.device().info()));
  config.chunkRows = balanced(call_.problem.rows, std::min(chunkRows_, config.chunkRows));
  chooseTail(call_.problem, call_.runtime.device().info(), config);
  return config;
}

Status ProductAlone::compile(const Configuration &configuration) {
  TW_ASSIGN_OR_RETURN(const Config config, configOf(configuration));
  return compileProduct(call_.runtime, call_.problem, config, product_);
}

Status ProductAlone::stage(const Configuration &configuration) {
  TW_ASSIGN_OR_RETURN(const Config config, configOf(configuration));
  const int64_t bytes = layOut(call_.problem, config, nullptr).bytes;
  if (static_cast<int64_t>(workspace_.bytes()) < bytes) {
    TW_ASSIGN_OR_RETURN(workspace_, call_.runtime.device().allocate(bytes, call_.stream));
  }
  TW_ASSIGN_OR_RETURN(rehearsal_, Rehearsal::make(call_.runtime, call_.problem, config, call_.tensors,
                                                  call_.options, workspace_, call_.stream));
  staged_ = configuration;
  return {};
}

Status ProductAlone::check(const Configuration &configuration) {
  TW_RETURN_IF_ERROR(makeCheck(check_, call_));
  TW_RETURN_IF_ERROR(stage(configuration));
  TW_RETURN_IF_ERROR(rehearsal_->run());
  TW_RETURN_IF_ERROR(call_.runtime.device().synchronize(call_.stream));
  return check_->check();
}

Status ProductAlone::prepare(const Configuration &configuration) {
  if (!(staged_ == configuration)) TW_RETURN_IF_ERROR(stage(configuration));
  return rehearsal_->prepare(product_);
}

Status ProductAlone::run(const Configuration &) { return rehearsal_->repeat(product_); }

// ---- All of it ---------------------------------------------------------------------------------------

LceTunable::LceTunable(TunedCall call, TunedCall excerpt, const Config &heuristic)
    : call_(std::move(call)), excerpt_(std::move(excerpt)), heuristic_(heuristic),
      space_(searchSpace(call_.problem, heuristic, device().info())),
      model_(lce::costModel(call_.problem, heuristic, device().info())), whole_(call_) {
  const int64_t chunkRows = excerptChunk(heuristic, device().info());
  for (const ProductStep &step : productSteps(call_.problem, heuristic_))
    if (!products_.count(step.kind))
      products_[step.kind] = std::make_unique<ProductAlone>(excerpt_, step.kind, chunkRows, excerptCheck_);
}

StatusOr<std::unique_ptr<LceTunable>> LceTunable::make(Runtime &runtime, const Problem &problem,
                                                       const LinearCrossEntropyTensors &tensors,
                                                       const LinearCrossEntropyOptions &options,
                                                       Stream stream) {
  Device &device = runtime.device();
  TW_ASSIGN_OR_RETURN(const Config heuristic,
                      plan(problem, options.variant, options.workspaceLimit, device.info()));
  TunedCall call{runtime, stream, problem, tensors, options};
  Buffer lse;
  if (!tensors.lse.data) {
    TW_ASSIGN_OR_RETURN(lse, device.allocate(4 * problem.rows, stream));
    call.tensors.lse = TensorRef::vector(lse.data(), ElementType::f32, problem.rows);
  }
  call.problem.wantsLse = true;
  TunedCall excerpt = excerptOf(call, excerptChunk(heuristic, device.info()));
  std::optional<Check> check;
  TW_RETURN_IF_ERROR(makeCheck(check, excerpt));
  // Rows that are ignored cost nothing, and times of few others would say nothing.
  const bool worksEnough = 2 * check->validRows() >= excerpt.problem.rows;
  std::unique_ptr<LceTunable> tunable(new LceTunable(call, worksEnough ? excerpt : call, heuristic));
  if (worksEnough) tunable->excerptCheck_ = std::move(check);
  tunable->lse_ = std::move(lse);
  return tunable;
}

std::vector<SearchStep> LceTunable::steps() {
  std::vector<SearchStep> steps;
  for (const ProductStep &step : productSteps(call_.problem, heuristic_))
    steps.push_back({step.name, step.parameters, products_.at(step.kind).get()});
  steps.push_back({"chunk", chunkParameters()});
  return steps;
}

int64_t LceTunable::workspaceBytes(const Configuration &configuration) const {
  const StatusOr<Config> config = configOf(configuration, call_.problem, device().info());
  return config.ok() ? layOut(call_.problem, *config, nullptr).bytes : 0;
}

} // namespace tilewright::lce
