#include "kernels/linear_cross_entropy.h"

#include <algorithm>
#include <chrono>

#include "autotune/tuning_cache.h"
#include "compiler/base/log.h"
#include "kernels/jit.h"
#include "kernels/lce/plan.h"
#include "kernels/lce/search.h"
#include "kernels/lce_execution.h"
#include "kernels/loss/carver.h"
#include "kernels/loss/validate.h"
#include "kernels/tune_linear_cross_entropy.h"

namespace tilewright {
namespace {

using namespace lce;
using Clock = std::chrono::steady_clock;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

} // namespace

namespace {

/// Options whose kernels are still to come.
Status checkSupported(const LinearCrossEntropyTensors &t, const LinearCrossEntropyOptions &o) {
  const std::pair<bool, const char *> missing[] = {
      {o.labelSmoothing != 0, "label smoothing"},
      {o.zLoss != 0, "z-loss"},
      {o.logitScale != 1, "logit scale"},
      {o.softcap.has_value(), "softcap"},
      {o.objective != Objective::logProb, "objective prob"},
      {o.lmcl.has_value(), "LMCL"},
      {o.accumulate, "accumulating into gradients"},
      {t.bias.data || t.dBias.data, "a bias"},
      {t.classWeight.data != nullptr, "class weights"},
      {t.gradLse.data || t.gradEntropy.data, "gradients of lse and entropy"},
      {t.entropy.data || t.argmax.data || t.correct.data || t.monitored.data, "monitored quantities"},
  };
  for (const auto &[wanted, name] : missing)
    if (wanted) return userError(std::string("linear cross entropy does not support ") + name + " yet");
  return Status();
}

} // namespace

StatusOr<Problem> lce::validate(const LinearCrossEntropyTensors &t,
                                const LinearCrossEntropyOptions &options) {
  TW_RETURN_IF_ERROR(checkOptions(options, t.classWeight.data != nullptr));
  if (options.lmcl) TW_RETURN_IF_ERROR(checkMargin(*options.lmcl, options, t.bias.data != nullptr));
  TW_RETURN_IF_ERROR(checkSupported(t, options));
  TW_RETURN_IF_ERROR(checkMatrix(t.hidden, "hidden"));
  TW_RETURN_IF_ERROR(checkMatrix(t.weight, "weight"));
  Problem p;
  p.rows = t.hidden.sizes[0], p.hidden = t.hidden.sizes[1], p.classes = t.weight.sizes[0];
  p.element = t.hidden.element;
  TW_RETURN_IF_ERROR(checkSizes(p.rows, p.classes));
  if (p.hidden < 1) return userError("hidden states need at least 1 column, found 0");
  TW_RETURN_IF_ERROR(checkShape(t.weight, "weight", p.classes, p.hidden));
  if (t.weight.element != p.element)
    return userError(std::string("weight must have the type of hidden, ") + elementName(p.element) +
                     ", but has " + elementName(t.weight.element));
  TW_RETURN_IF_ERROR(checkLossTensors({t.label, t.gradOutput, t.loss, t.lse}, p.rows, options.reduction));
  p.label = t.label.element;
  p.reduction = options.reduction;
  p.wantsLse = t.lse.data != nullptr;
  p.upstream = upstreamOf(t.gradOutput, p.rows, options.reduction);
  if (t.dHidden.data) {
    TW_RETURN_IF_ERROR(checkGradient(t.dHidden, "dHidden", p.rows, p.hidden, p.element));
    p.dHidden = t.dHidden.element;
  }
  if (t.dWeight.data) {
    TW_RETURN_IF_ERROR(checkGradient(t.dWeight, "dWeight", p.classes, p.hidden, p.element));
    p.dWeight = t.dWeight.element;
  }
  if (options.workspaceLimit < 0)
    return userError("the workspace limit must be 0 (none) or a number of bytes, found " +
                     std::to_string(options.workspaceLimit));
  if (options.variant == Variant::lossOnly && p.wantsGradients())
    return userError(
        "variant loss_only computes no gradient; leave dHidden and dWeight null or choose another variant");
  return p;
}

namespace {

/// The loaded kernels of one problem and configuration; those it has no use for stay null.
struct Kernels {
  KernelHandle compactRows, gatherRows, forward, checkAnchor, combine, reduceLoss;
  KernelHandle rankLabels, oneHotSum, dHidden;
  KernelHandle dWeightFirst, dWeightNext, dWeightLast; ///< for chunks in that order
};

// One program of the one-hot sum is a row; wider than this, the row is split.
constexpr int64_t kOneHotColumns = 512;

DWeightSpec dWeightSpec(const Problem &problem, const Config &config, DWeightSpec::Mode mode,
                        ElementType output) {
  return {problem.exponentials(), output, mode, config.dWeight.block};
}

CompileOptions optionsFor(const Product &product) {
  CompileOptions options;
  options.schedule.contractionStep = product.contractionStep;
  return options;
}

StatusOr<Kernels> makeKernels(Runtime &runtime, const Problem &problem, const Config &config) {
  Kernels kernels;
  std::vector<JitRequest> requests;
  std::vector<KernelHandle *> places;
  const auto want = [&](KernelHandle &place, Kernel kernel, const CompileOptions &options = {}) {
    requests.push_back({std::move(kernel), options});
    places.push_back(&place);
  };
  const bool mean = problem.reduction == Reduction::mean;
  const bool gradients = problem.wantsGradients();
  const auto exponentials = gradients ? std::optional(problem.exponentials()) : std::nullopt;

  // A small one first, which tells whether to compile at all; then the large ones, so that no thread is left
  // with one at the end.
  want(kernels.compactRows, compactRows({problem.label, problem.dHidden}));
  want(kernels.forward, forward({problem.element, exponentials, config.forward.block}),
       optionsFor(config.forward));
  if (problem.dHidden)
    want(kernels.dHidden,
         dHidden({problem.element, problem.exponentials(), *problem.dHidden, config.dHidden.block}),
         optionsFor(config.dHidden));
  if (problem.dWeight) {
    using Mode = DWeightSpec::Mode;
    const bool single = config.chunks(problem) == 1, accumulates = *problem.dWeight == ElementType::f32;
    const ElementType first = single ? *problem.dWeight : ElementType::f32;
    const auto wantPart = [&](KernelHandle &place, Mode mode, ElementType output) {
      want(place, dWeight(dWeightSpec(problem, config, mode, output)), optionsFor(config.dWeight));
    };
    wantPart(kernels.dWeightFirst, Mode::store, first);
    if (!single) wantPart(kernels.dWeightNext, Mode::add, ElementType::f32);
    if (!single && !accumulates) wantPart(kernels.dWeightLast, Mode::finish, *problem.dWeight);
    want(kernels.rankLabels, rankLabels());
    want(kernels.oneHotSum, oneHotSum(problem.element, kOneHotColumns));
  }
  want(kernels.gatherRows, gatherRows(problem.element));
  want(kernels.checkAnchor, checkAnchor());
  CombineSpec combineSpec;
  if (gradients) combineSpec.gradients = {problem.element, problem.exponentials(), {problem.upstream, mean}};
  want(kernels.combine, combine(combineSpec));
  if (problem.reduction != Reduction::none) want(kernels.reduceLoss, reduceLoss(mean));

  TW_ASSIGN_OR_RETURN(const std::vector<KernelHandle> made, jitAll(runtime, requests));
  for (std::size_t i = 0; i < made.size(); ++i)
    *places[i] = made[i];
  return kernels;
}

/// Enqueues the launches of one call. Nothing here reads a tensor's data.
class Launches {
public:
  Launches(Device &device, Stream stream, const Problem &problem, const Config &config,
           const Kernels &kernels, const LinearCrossEntropyTensors &tensors,
           const LinearCrossEntropyOptions &options, const Workspace &w)
      : device_(device), stream_(stream), p_(problem), config_(config), kernels_(kernels), t_(tensors),
        options_(options), w_(w), rowLoss_(w.rowLoss.data ? w.rowLoss : tensors.loss),
        lse_(tensors.lse.data ? tensors.lse : w.lse) {}

  Status run() {
    TW_RETURN_IF_ERROR(compact());
    for (int64_t chunk = 0; chunk < config_.chunks(p_); ++chunk) {
      selectChunk(chunk);
      TW_RETURN_IF_ERROR(exponentials());
      if (p_.dHidden) TW_RETURN_IF_ERROR(hiddenGradient());
      if (p_.dWeight) TW_RETURN_IF_ERROR(weightGradient(chunk));
    }
    if (p_.reduction == Reduction::none) return Status();
    return launch(kernels_.reduceLoss, {rowLoss_, w_.summary, t_.loss});
  }

private:
  Status compact() {
    TW_RETURN_IF_ERROR(fill(device_, w_.rowNumbers, 0xFF, stream_)); // -1: no row
    TW_RETURN_IF_ERROR(fill(device_, w_.summary, 0, stream_));       // stays when there is no row at all
    std::vector<KernelArgument> arguments = {
        t_.label,   options_.ignoreIndex,  p_.classes, w_.row, w_.compactLabel,
        w_.summary, device_.labelReport(), rowLoss_,   lse_};
    if (p_.dHidden) arguments.push_back(t_.dHidden);
    return launch(kernels_.compactRows, arguments);
  }

  void selectChunk(int64_t chunk) {
    first_ = chunk * config_.chunkRows;
    const int64_t rows = std::min(config_.chunkRows, p_.rows - first_);
    c_ = w_;
    c_.row = w_.row.rows(first_, rows);
    c_.compactLabel = w_.compactLabel.rows(first_, rows);
    for (TensorRef *tensor : {&c_.xc, &c_.xs, &c_.u, &c_.target, &c_.anchor, &c_.redo, &c_.sums, &c_.tops,
                              &c_.stored, &c_.e, &c_.scale, &c_.oneHot, &c_.order, &c_.run})
      if (tensor->data) *tensor = tensor->rows(0, rows);
  }

  /// E and the losses. The second launch of the forward kernel is for rows whose anchor was wrong, if there
  /// are any.
  Status exponentials() {
    std::vector<KernelArgument> arguments = {c_.xc,   t_.weight, c_.compactLabel, c_.anchor,
                                             c_.redo, c_.sums,   c_.tops};
    if (p_.wantsGradients()) arguments.insert(arguments.end(), {c_.e, c_.stored});
    TW_RETURN_IF_ERROR(launch(kernels_.gatherRows, {t_.hidden, t_.weight, c_.row, c_.compactLabel, c_.xc,
                                                    c_.target, c_.anchor, c_.redo}));
    TW_RETURN_IF_ERROR(launch(kernels_.forward, arguments));
    TW_RETURN_IF_ERROR(launch(kernels_.checkAnchor, {c_.sums, c_.tops, c_.anchor, c_.redo}));
    TW_RETURN_IF_ERROR(launch(kernels_.forward, arguments));

    arguments = {c_.sums, c_.target, c_.anchor, c_.row, rowLoss_, lse_};
    if (p_.wantsGradients()) {
      arguments.insert(arguments.end(), {c_.stored, w_.summary});
      if (p_.upstream != Upstream::one) arguments.push_back(t_.gradOutput);
      arguments.insert(arguments.end(), {c_.xc, c_.scale, c_.oneHot, c_.xs});
    }
    return launch(kernels_.combine, arguments);
  }

  Status hiddenGradient() {
    return launch(kernels_.dHidden,
                  {c_.e, t_.weight, c_.compactLabel, c_.scale, c_.oneHot, c_.row, t_.dHidden});
  }

  Status weightGradient(int64_t chunk) {
    TW_RETURN_IF_ERROR(fill(device_, w_.slot, 0xFF, stream_)); // -1: the label does not occur
    TW_RETURN_IF_ERROR(launch(kernels_.rankLabels, {c_.compactLabel, c_.order, c_.run, w_.slot}));
    TW_RETURN_IF_ERROR(launch(kernels_.oneHotSum, {c_.xc, c_.oneHot, c_.order, c_.run, c_.u}));

    const bool last = chunk + 1 == config_.chunks(p_);
    const TensorRef &sum = w_.partial.data ? w_.partial : t_.dWeight;
    std::vector<KernelArgument> arguments = {c_.e, c_.xs, c_.u, w_.slot, w_.summary, first_};
    if (last && chunk > 0 && w_.partial.data) {
      arguments.insert(arguments.end(), {w_.partial, t_.dWeight});
      return launch(kernels_.dWeightLast, arguments);
    }
    arguments.push_back(sum);
    return launch(chunk == 0 ? kernels_.dWeightFirst : kernels_.dWeightNext, arguments);
  }

  Status launch(const KernelHandle &kernel, const std::vector<KernelArgument> &arguments) {
    return device_.launch(*kernel, arguments, stream_);
  }

  Device &device_;
  Stream stream_;
  const Problem &p_;
  const Config &config_;
  const Kernels &kernels_;
  const LinearCrossEntropyTensors &t_;
  const LinearCrossEntropyOptions &options_;
  const Workspace &w_;
  const TensorRef rowLoss_, lse_;
  int64_t first_ = 0;
  Workspace c_; ///< this chunk's part of the workspace
};

} // namespace

StatusOr<LossReport> lce::execute(Runtime &runtime, const Problem &problem, const Config &config,
                                  const LinearCrossEntropyTensors &tensors,
                                  const LinearCrossEntropyOptions &options, Stream stream) {
  Device &device = runtime.device();
  LossReport report;
  report.variant = config.variant;
  report.configuration = config.str();
  report.workspaceBytes = layOut(problem, config, nullptr).bytes;
  auto start = Clock::now();
  TW_ASSIGN_OR_RETURN(const Kernels kernels, makeKernels(runtime, problem, config));
  report.compileMilliseconds = millisecondsSince(start);

  start = Clock::now();
  TW_ASSIGN_OR_RETURN(const Buffer memory, device.allocate(report.workspaceBytes, stream));
  const Workspace workspace = layOut(problem, config, memory.data());
  TW_RETURN_IF_ERROR(Launches(device, stream, problem, config, kernels, tensors, options, workspace).run());
  TW_RETURN_IF_ERROR(reportNow(device, stream));
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
  StatusOr<TuningCache::Record> record = cache.obtain(key, accept, tuneCall);
  if (!record.ok()) {
    logWarning("linear cross entropy is not tuned: " + record.status().message());
    return nullptr;
  }
  if (!*record) logWarning("linear cross entropy is not tuned: another process is still tuning");
  return *record;
}

/// A tuned configuration where there is one and the environment lets us use it, else a planned one.
StatusOr<Config> chooseConfig(Runtime &runtime, const Problem &problem,
                              const LinearCrossEntropyTensors &tensors,
                              const LinearCrossEntropyOptions &options, Stream stream) {
  const Environment &environment = runtime.environment();
  if (environment.autotune != AutotuneMode::off) {
    TuningCache &cache = *TuningCache::shared(environment.cacheDir);
    const TuningKey key = lce::tuningKey(problem, runtime.device().info());
    TuningCache::Record record = cache.find(key);
    const bool mayTune = environment.autotune == AutotuneMode::write && !runtime.device().isCapturing(stream);
    if (!record && mayTune && problem.rows > 0)
      record = tuneNow(runtime, cache, key, tensors, options, stream);
    if (record)
      if (auto config = tunedConfig(*record, problem, options.variant, options.workspaceLimit))
        return *config;
  }
  return plan(problem, options.variant, options.workspaceLimit, runtime.device().info());
}

} // namespace

StatusOr<LossReport> linearCrossEntropy(Runtime &runtime, const LinearCrossEntropyTensors &tensors,
                                        const LinearCrossEntropyOptions &options, Stream stream) {
  TW_ASSIGN_OR_RETURN(const Problem problem, validate(tensors, options));
  TW_ASSIGN_OR_RETURN(const Config config, chooseConfig(runtime, problem, tensors, options, stream));
  return execute(runtime, problem, config, tensors, options, stream);
}

} // namespace tilewright
