#include "kernels/lce/kernel_set.h"

#include <vector>

#include "kernels/jit.h"

namespace tilewright::lce {
namespace {

// One program of the one-hot sum is a row; wider than this, the row is split. Of the classes of a slice most
// have no row, and of programs without work there should be few.
constexpr int64_t kOneHotColumns = 2048;
// E is read and written once, a few cache lines of some rows at a time; on a GPU by so few warps that each
// thread has eight vectors on their way.
constexpr Block kInPlaceBlock{32, 256};
constexpr int kInPlaceWarps = 4;

/// Where E is fp32 for f16 inputs, a tensor core rounds it no more than f16 rounds the gradients.
bool usesTf32(const Problem &problem) {
  return problem.tf32 || (problem.element == ElementType::f16 && problem.tensorCores);
}

CompileOptions optionsFor(const Problem &problem, const Product &product) {
  CompileOptions options;
  options.tf32 = usesTf32(problem);
  options.schedule.contractionStep = product.contractionStep;
  options.schedule.stages = product.stages;
  options.schedule.roles = product.roles;
  options.schedule.rasterRows = product.rasterRows;
  options.schedule.clusterCtas = product.clusterCtas;
  options.alignedMatrices = problem.aligned && hasRoles(product);
  return options;
}

/// Collects what is wanted, and makes it all at once.
class Wishes {
public:
  Wishes(const Problem &problem, const Config &config, TargetKind target)
      : p_(problem), config_(config), target_(target) {}

  void collect(KernelSet &kernels) {
    // A small one first, which tells whether to compile at all; then the large ones, so that no thread is
    // left with one at the end.
    want(kernels.compactRows, compactRows({p_.label, p_.dHidden}));
    forwardProduct(kernels);
    if (p_.dHidden) hiddenProduct(kernels);
    if (p_.wantsClassGradients()) want(kernels.rankLabels, rankLabels(), rankLabelsOptions(target_));
    if (p_.dWeight) {
      weightProduct(kernels);
      want(kernels.oneHotSum, oneHotSum({p_.element, kOneHotColumns, oneHotPlace()}), oneHotSumOptions());
      if (p_.normalisesRows()) want(kernels.scaleRows, scaleRows(p_.element));
    }
    if (p_.dBias) biasProduct(kernels);
    if (p_.hasSecondPass()) secondPass(kernels);
    want(kernels.gatherRows,
         gatherRows({p_.element, p_.terms, p_.wantsGradients() && !p_.terms.logitsAreProducts()}));
    want(kernels.pendingRows, pendingRows());
    if (p_.wantsTotalsAlone()) totals(kernels);
    if (p_.hasTotals())
      want(kernels.joinSums, joinSums(), rowSumOptions(target_));
    else
      want(kernels.checkAnchor, checkAnchor(), rowSumOptions(target_));
    want(kernels.combine, combine(combineSpec()), combineOptions(p_.hasTotals()));
    if (p_.reduction != Reduction::none) want(kernels.reduceLoss, reduceLoss(isMean()));
    options(kernels);
  }

  void collect(KernelSet &kernels, ProductKind product) {
    if (product == ProductKind::forward) forwardProduct(kernels);
    if (product == ProductKind::dHidden) hiddenProduct(kernels);
    if (product == ProductKind::dWeight) weightProduct(kernels);
    if (product == ProductKind::again) wantAgain(kernels.again, product);
  }

  Status make(Runtime &runtime) {
    TW_ASSIGN_OR_RETURN(const std::vector<KernelHandle> made, jitAll(runtime, requests_));
    for (std::size_t i = 0; i < made.size(); ++i)
      *places_[i] = made[i];
    return Status();
  }

  Status compile(Runtime &runtime) const {
    for (const JitRequest &request : requests_)
      TW_RETURN_IF_ERROR(jit(runtime, request.kernel, request.options).status());
    return Status();
  }

private:
  void want(KernelHandle &place, Kernel kernel, const CompileOptions &options = {}) {
    requests_.push_back({std::move(kernel), options});
    places_.push_back(&place);
  }

  bool isMean() const { return p_.reduction == Reduction::mean; }

  CompileOptions optionsFor(ProductKind kind) const {
    CompileOptions options = lce::optionsFor(p_, config_[kind]);
    // On a GPU without roles four warps have registers for a product and its exponentials, or for storing it,
    // and not for more.
    const bool isHeavy = kind == ProductKind::forward   ? p_.terms.margin || p_.outputs.best
                         : kind == ProductKind::again   ? p_.terms.margin
                         : kind == ProductKind::dWeight ? p_.accumulate || config_.weightParts(p_) > 1
                                                        : false;
    if (isHeavy && target_ == TargetKind::nvptx && !hasRoles(config_[kind])) options.schedule.warps = 8;
    return options;
  }
  OneHotPlace oneHotPlace() const { return p_.hasSecondPass() ? OneHotPlace::label : OneHotPlace::slot; }
  bool hasUniformFactor() const { return p_.isUniformRankOne() && p_.hasClassFactor(); }

  void forwardProduct(KernelSet &kernels) {
    wantForward(kernels.forward, p_.anchors());
    if (p_.keepsExponentials() && p_.completion() == Completion::again)
      wantAgain(kernels.complete, ProductKind::forward);
  }

  void wantForward(KernelHandle &place, Anchors anchors) {
    const bool storesE = p_.keepsExponentials() && p_.completion() != Completion::again;
    const auto exponentials = storesE ? std::optional(p_.exponentials()) : std::nullopt;
    want(place,
         forward({p_.element, exponentials, config_.forward.block, p_.terms, p_.rowSums(), p_.outputs.best,
                  p_.dropsQuiet() && storesE && anchors == Anchors::ofRows, anchors}),
         optionsFor(ProductKind::forward));
  }

  void totals(KernelSet &kernels) {
    wantForward(kernels.forwardOfBlocks, Anchors::ofBlocks);
    want(kernels.totalSums, totalSums(), rowSumOptions(target_));
  }

  void wantAgain(KernelHandle &place, ProductKind kind) {
    want(place,
         completeAgain({p_.element, p_.exponentials(), config_[kind].block, p_.terms, p_.dropsQuiet(),
                        p_.terms.labelSmoothing && !p_.isUniformRankOne()}),
         optionsFor(kind));
  }

  void secondPass(KernelSet &kernels) {
    wantAgain(kernels.again, ProductKind::again);
    want(kernels.copyRows, copyRows(p_.element, p_.element));
    if (p_.dWeight && p_.element != p_.exponentials())
      want(kernels.copyWidened, copyRows(p_.element, p_.exponentials()));
    if (!config_.keptClasses) return;
    want(kernels.keep, keep({p_.exponentials(), kInPlaceBlock, p_.completion() == Completion::none}),
         passOptions());
  }

  void hiddenProduct(KernelSet &kernels) {
    const DHiddenSpec spec{
        p_.element,     p_.exponentials(), *p_.dHidden, config_.dHidden.block, p_.isUniformRankOne(),
        p_.terms.margin};
    const CompileOptions options = optionsFor(ProductKind::dHidden);
    if (!config_.hasTail() || config_.tail.begin > 0) want(kernels.dHidden, dHidden(spec), options);
    if (config_.hasTail()) hiddenTail(kernels, spec, options);
  }

  /// A part's tiles go side by side.
  void hiddenTail(KernelSet &kernels, DHiddenSpec total, CompileOptions options) {
    options.schedule.rasterRows = static_cast<int>(config_.tailRows() / total.block.rows);
    total.parts = config_.tail.parts;
    want(kernels.dHiddenParts, dHiddenParts({p_.element, p_.exponentials(), total.block, total.parts}),
         options);
    total.block = kTotalBlock;
    want(kernels.dHiddenTotal, dHidden(total));
  }

  void weightProduct(KernelSet &kernels) {
    // What is still to be normalised is in fp32, and adds to nothing.
    const ElementType output = p_.terms.margin ? ElementType::f32 : *p_.dWeight;
    const bool accumulate = p_.accumulate && !p_.terms.margin;
    const auto make = [&](const Accumulation &accumulation, ElementType type) {
      return dWeight({p_.exponentials(), type, accumulation, config_.dWeight.block, p_.isUniformRankOne(),
                      hasUniformFactor(), p_.normalisesRows(), oneHotPlace()});
    };
    const bool inPlace = config_.columnsInPlace(p_) > 0;
    wantParts(kernels.dWeight, output, accumulate, inPlace, optionsFor(ProductKind::dWeight), make);
    if (output == ElementType::f32 || config_.weightParts(p_) == 1) return;
    want(kernels.roundSums, roundSums({output, inPlace, accumulate && !inPlace}));
    if (inPlace && accumulate) want(kernels.widenSums, widenSums(output));
  }

  void biasProduct(KernelSet &kernels) {
    want(kernels.sumExponentials, sumRows({p_.exponentials(), p_.scalesExponentials(), true}),
         sumRowsOptions());
    want(kernels.labelSums, labelSums());
    const auto make = [&](const Accumulation &accumulation, ElementType type) {
      return dBias({type, accumulation, p_.isUniformRankOne(), hasUniformFactor()});
    };
    wantParts(kernels.dBias, *p_.dBias, p_.accumulate, false, {}, make);
    if (*p_.dBias != ElementType::f32 && config_.weightParts(p_) > 1)
      want(kernels.dBias.last, make({Accumulation::Mode::finish, p_.accumulate}, *p_.dBias));
  }

  /// The kernels that make sums in fp32, or the output of one part. `widened`: what the output holds is in
  /// the sums before the first part is.
  template <typename Make>
  void wantParts(PartKernels &parts, ElementType output, bool accumulate, bool widened,
                 const CompileOptions &options, const Make &make) {
    using Mode = Accumulation::Mode;
    const ElementType f32 = ElementType::f32;
    if (config_.weightParts(p_) == 1)
      return want(parts.first, make(Accumulation{Mode::store, accumulate}, output), options);
    const bool isSum = output == f32; // else it has a buffer
    const bool addsFirst = accumulate && (isSum || widened);
    want(parts.first, make(Accumulation{addsFirst ? Mode::add : Mode::store}, f32), options);
    want(parts.next, make(Accumulation{Mode::add}, f32), options);
  }

  /// That suit a pass over E.
  static CompileOptions passOptions() {
    CompileOptions options;
    options.schedule.warps = kInPlaceWarps;
    return options;
  }

  /// By a pass over E.
  void completion(KernelSet &kernels) {
    const CompileOptions options = passOptions();
    if (p_.completion() == Completion::inPlace)
      want(kernels.complete, completeInPlace({p_.element, p_.exponentials(), kInPlaceBlock, p_.terms}),
           options);
    if (p_.completion() == Completion::rescale)
      want(kernels.complete,
           rescale({p_.exponentials(), {kInPlaceBlock.rows, config_.forward.block.columns}, p_.dropsQuiet()}),
           options);
  }

  CombineSpec combineSpec() const {
    CombineSpec spec;
    spec.terms = p_.terms;
    spec.sums = p_.rowSums();
    spec.outputs = p_.outputs;
    spec.hasTotals = p_.hasTotals();
    if (p_.wantsGradients())
      spec.gradients = {p_.element,      p_.exponentials(), {p_.upstream, isMean()},
                        p_.completion(), p_.scalesRows(),   p_.scalesInPlace()};
    return spec;
  }

  void options(KernelSet &kernels) {
    if (p_.terms.classWeight) {
      want(kernels.rowWeights, rowWeights());
      want(kernels.weightFacts, weightFacts(isMean()));
    }
    if (p_.terms.margin) {
      want(kernels.classNorms, rowNorms(p_.element, p_.terms.classWeight));
      if (p_.dWeight) {
        const bool inPlace = *p_.dWeight == ElementType::f32 && !p_.accumulate;
        want(kernels.normalise, normalise({p_.element, *p_.dWeight, inPlace, p_.accumulate}));
      }
    }
    if (p_.keepsExponentials()) completion(kernels);
    if (p_.outputs.monitored) want(kernels.monitor, monitor());
    if (!p_.isUniformRankOne()) return;
    const auto wantSums = [&](KernelHandle &place, ElementType element, bool factor) {
      want(place, sumRows({element, factor}), sumRowsOptions());
    };
    if (p_.dHidden) wantSums(kernels.sumClasses, p_.element, p_.hasClassFactor());
    if (p_.dWeight) wantSums(kernels.sumRows, p_.element, true);
    if (p_.dHidden || p_.dWeight) wantSums(kernels.sumParts, ElementType::f32, false);
  }

  const Problem &p_;
  const Config &config_;
  TargetKind target_;
  std::vector<JitRequest> requests_;
  std::vector<KernelHandle *> places_;
};

} // namespace

StatusOr<KernelSet> makeKernels(Runtime &runtime, const Problem &problem, const Config &config) {
  KernelSet kernels;
  Wishes wishes(problem, config, runtime.device().target().kind);
  wishes.collect(kernels);
  TW_RETURN_IF_ERROR(wishes.make(runtime));
  return kernels;
}

Status compileProduct(Runtime &runtime, const Problem &problem, const Config &config, ProductKind product) {
  KernelSet kernels;
  Wishes wishes(problem, config, runtime.device().target().kind);
  wishes.collect(kernels, product);
  return wishes.compile(runtime);
}

} // namespace tilewright::lce
