#include "kernels/lce_tunable.h"

#include <algorithm>
#include <vector>

#include "kernels/lce/plan.h"
#include "kernels/lce/product_cost.h"
#include "kernels/lce/tensors.h"

namespace tilewright::lce {
namespace {

/// Chunks of a call in which every kind occurs: the first, those in the middle, the last.
constexpr int64_t kKindsOfChunks = 3;
// On a CPU a product's speed does not depend on how many rows there are, as long as each thread has some, and
// fewer are sooner done.
constexpr int64_t kFewestCpuRows = 384, kRowsOfAThread = 192;

int64_t excerptChunk(const Config &heuristic, const DeviceInfo &device) {
  if (device.sharedBytes > 0) return heuristic.chunkRows;
  return std::min(heuristic.chunkRows, std::max(kFewestCpuRows, kRowsOfAThread * device.units));
}

// Nor on how many columns of blocks there are, as long as they are whole and each thread has some: a common
// multiple of the blocks' extents that are tried.
constexpr int64_t kCpuExtent = 1536;

/// The call's first rows: enough for each kind of chunk.
TunedCall excerptOf(const TunedCall &call, int64_t chunkRows) {
  TunedCall excerpt = call;
  const bool accumulates = call.request.dWeight && *call.request.dWeight == ElementType::f32;
  const int64_t kinds = !call.request.dWeight ? 1 : accumulates ? kKindsOfChunks - 1 : kKindsOfChunks;
  const int64_t rows = std::min(call.request.rows, kinds * chunkRows);
  excerpt.request.rows = rows;
  const auto cut = [&](TensorRef &tensor) {
    if (tensor.data && tensor.sizes[0] == call.request.rows) tensor = tensor.rows(0, rows);
  };
  LinearCrossEntropyTensors &t = excerpt.tensors;
  cut(t.hidden), cut(t.label), cut(t.lse), cut(t.dHidden);
  if (call.request.reduction == Reduction::none) cut(t.loss);
  if (call.request.upstream == Upstream::rows) cut(t.gradOutput);
  return excerpt;
}

/// Labels of the first `classes` classes, in memory of their own, in place of those that there are.
StatusOr<Buffer> foldLabels(TunedCall &call, int64_t allClasses, int64_t classes) {
  Device &device = call.runtime.device();
  TensorRef &label = call.tensors.label;
  const std::size_t bytes = label.sizes[0] * elementBytes(label.element);
  std::vector<uint8_t> labels(bytes);
  TW_RETURN_IF_ERROR(device.copyToHost(labels.data(), label.data, bytes, call.stream));
  const auto fold = [&](auto *all) {
    for (int64_t row = 0; row < label.sizes[0]; ++row)
      if (all[row] >= 0 && all[row] < allClasses) all[row] %= classes;
  };
  if (label.element == ElementType::i64)
    fold(reinterpret_cast<int64_t *>(labels.data()));
  else
    fold(reinterpret_cast<int32_t *>(labels.data()));
  TW_ASSIGN_OR_RETURN(Buffer folded, device.allocate(bytes, call.stream));
  TW_RETURN_IF_ERROR(device.copyToDevice(folded.data(), labels.data(), bytes, call.stream));
  label.data = folded.data();
  return folded;
}

/// The first classes and columns of X and W alone; what is returned holds the labels.
StatusOr<Buffer> narrow(TunedCall &call) {
  Request &request = call.request;
  LinearCrossEntropyTensors &t = call.tensors;
  const int64_t allClasses = request.classes;
  request.classes = std::min(allClasses, kCpuExtent * call.runtime.device().info().units);
  request.hidden = std::min(request.hidden, kCpuExtent);
  for (TensorRef *matrix : {&t.weight, &t.dWeight})
    if (matrix->data) *matrix = matrix->rows(0, request.classes);
  for (TensorRef *matrix : {&t.hidden, &t.weight, &t.dHidden, &t.dWeight})
    if (matrix->data) *matrix = matrix->columns(0, request.hidden);
  request.borrowedBytes = 0; // dW's rows need not lie side by side any more
  return foldLabels(call, allClasses, request.classes);
}

Status makeCheck(std::optional<Check> &check, const TunedCall &call) {
  if (check) return {};
  TW_ASSIGN_OR_RETURN(Check made,
                      Check::make(call.runtime, call.stream, call.request, call.tensors, call.options));
  check.emplace(std::move(made));
  return {};
}

} // namespace

// ---- The whole call ----------------------------------------------------------------------------------

Status WholeCall::compile(const Configuration &configuration) {
  TW_ASSIGN_OR_RETURN(const Config config,
                      configOf(configuration, call_.request, call_.runtime.device().info()));
  const Request &p = call_.request;
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
                      configOf(configuration, call_.request, call_.runtime.device().info()));
  Device &device = call_.runtime.device();
  TW_ASSIGN_OR_RETURN(const auto prepared, prepareCall(call_.runtime, call_.request, config, call_.options));
  TW_ASSIGN_OR_RETURN(const Buffer workspace, device.allocate(prepared->workspaceBytes(), call_.stream));
  return prepared->run(TensorsById(call_.tensors), {workspace.data(), prepared->workspaceBytes(), {}},
                       call_.stream);
}

// ---- A product alone ---------------------------------------------------------------------------------

StatusOr<Config> ProductAlone::configOf(const Configuration &configuration) const {
  TW_ASSIGN_OR_RETURN(Config config,
                      lce::configOf(configuration, call_.request, call_.runtime.device().info()));
  config.chunkRows =
      ChunkSizes(call_.request).balanced(call_.request.rows, std::min(chunkRows_, config.chunkRows));
  chooseTail(schemeFor(call_.request, config.variant), call_.runtime.device().info(), config);
  return config;
}

Status ProductAlone::compile(const Configuration &configuration) {
  TW_ASSIGN_OR_RETURN(const Config config, configOf(configuration));
  return compileProduct(call_.runtime, call_.request, config, product_);
}

Status ProductAlone::stage(const Configuration &configuration) {
  TW_ASSIGN_OR_RETURN(const Config config, configOf(configuration));
  TW_ASSIGN_OR_RETURN(prepared_, prepareCall(call_.runtime, call_.request, config, call_.options));
  const int64_t bytes = prepared_->workspaceBytes();
  if (static_cast<int64_t>(workspace_.bytes()) < bytes) {
    TW_ASSIGN_OR_RETURN(workspace_, call_.runtime.device().allocate(bytes, call_.stream));
  }
  staged_ = configuration;
  return {};
}

CallMemory ProductAlone::memory() const {
  return {workspace_.data(), static_cast<int64_t>(workspace_.bytes()), {}};
}

/// Enqueues the steps of one tag.
Status ProductAlone::runSteps(int tag) const {
  return prepared_->runTagged(TensorsById(call_.tensors), memory(), call_.stream, tag);
}

Status ProductAlone::check(const Configuration &configuration) {
  TW_RETURN_IF_ERROR(makeCheck(check_, call_));
  TW_RETURN_IF_ERROR(stage(configuration));
  TW_RETURN_IF_ERROR(prepared_->run(TensorsById(call_.tensors), memory(), call_.stream));
  TW_RETURN_IF_ERROR(call_.runtime.device().synchronize(call_.stream));
  return check_->check();
}

Status ProductAlone::prepare(const Configuration &configuration) {
  if (!(staged_ == configuration)) TW_RETURN_IF_ERROR(stage(configuration));
  // The last chunk's rows are those that a call leaves behind it, but for what the parts of dX's tail took
  // the place of.
  return product_ == ProductKind::dHidden ? Status() : runSteps(kPreparesProducts);
}

Status ProductAlone::run(const Configuration &) { return runSteps(tagOf(product_)); }

// ---- All of it ---------------------------------------------------------------------------------------

LceTunable::LceTunable(TunedCall call, TunedCall excerpt, const Config &heuristic)
    : call_(std::move(call)), excerpt_(std::move(excerpt)), heuristic_(heuristic),
      space_(searchSpace(call_.request, heuristic, device().info())),
      model_(lce::costModel(call_.request, heuristic, device().info())), whole_(call_) {
  const int64_t chunkRows = excerptChunk(heuristic, device().info());
  for (const ProductStep &step : productSteps(call_.request, heuristic_))
    if (!products_.count(step.kind))
      products_[step.kind] = std::make_unique<ProductAlone>(excerpt_, step.kind, chunkRows, excerptCheck_);
}

StatusOr<std::unique_ptr<LceTunable>> LceTunable::make(Runtime &runtime, const Request &request,
                                                       const LinearCrossEntropyTensors &tensors,
                                                       const LinearCrossEntropyOptions &options,
                                                       Stream stream) {
  Device &device = runtime.device();
  TW_ASSIGN_OR_RETURN(const Config heuristic,
                      plan(request, options.variant, options.workspaceLimit, device.info()));
  TunedCall call{runtime, stream, request, tensors, options};
  Buffer lse;
  if (!tensors.lse.data) {
    TW_ASSIGN_OR_RETURN(lse, device.allocate(4 * request.rows, stream));
    call.tensors.lse = TensorRef::vector(lse.data(), ElementType::f32, request.rows);
  }
  call.request.given.lse = true;
  TunedCall excerpt = excerptOf(call, excerptChunk(heuristic, device.info()));
  Buffer labels;
  if (device.info().sharedBytes == 0) {
    TW_ASSIGN_OR_RETURN(labels, narrow(excerpt));
  }
  std::optional<Check> check;
  TW_RETURN_IF_ERROR(makeCheck(check, excerpt));
  // Rows that are ignored cost nothing, and times of few others would say nothing.
  const bool worksEnough = 2 * check->validRows() >= excerpt.request.rows;
  std::unique_ptr<LceTunable> tunable(new LceTunable(call, worksEnough ? excerpt : call, heuristic));
  if (worksEnough) tunable->excerptCheck_ = std::move(check);
  tunable->lse_ = std::move(lse), tunable->labels_ = std::move(labels);
  return tunable;
}

std::vector<SearchStep> LceTunable::steps() {
  std::vector<SearchStep> steps;
  for (const ProductStep &step : productSteps(call_.request, heuristic_))
    steps.push_back({step.name, step.parameters, products_.at(step.kind).get()});
  steps.push_back({"chunk", chunkParameters()});
  return steps;
}

int64_t LceTunable::workspaceBytes(const Configuration &configuration) const {
  const StatusOr<Config> config = configOf(configuration, call_.request, device().info());
  return config.ok() ? lce::workspaceBytes(schemeFor(call_.request, config->variant), *config) : 0;
}

} // namespace tilewright::lce
