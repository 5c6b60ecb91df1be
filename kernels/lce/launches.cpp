#include "kernels/lce/launches.h"

#include <algorithm>
#include <vector>

#include "kernels/loss/carver.h"

namespace tilewright::lce {
namespace {

/// Those that are there.
void append(KernelArguments &arguments, std::initializer_list<TensorRef> tensors) {
  for (const TensorRef &tensor : tensors)
    if (tensor.data) arguments.push_back(tensor);
}

} // namespace

Launches::Launches(Device &device, Stream stream, const Problem &problem, const Config &config,
                   const KernelSet &kernels, const LinearCrossEntropyTensors &tensors,
                   const LinearCrossEntropyOptions &options, const Workspace &workspace)
    : device_(device), stream_(stream), p_(problem), config_(config), kernels_(kernels), t_(tensors),
      options_(options), w_(workspace), logitTerms_(problem.terms),
      rowTerms_(problem.terms, problem.wantsGradients()) {
  if (!w_.rowLoss.data) w_.rowLoss = t_.loss;
  const auto prefer = [](TensorRef &own, const TensorRef &callers) {
    if (callers.data) own = callers;
  };
  prefer(w_.lse, t_.lse);
  prefer(w_.entropy, t_.entropy);
  prefer(w_.argmax, t_.argmax);
  prefer(w_.correct, t_.correct);
  values_ = {options,        options.lmcl.value_or(Margin()),
             p_.classes,     t_.bias,
             t_.classWeight, t_.gradLse,
             t_.gradEntropy, w_.weightFacts,
             w_.classNorm};
}

Status Launches::run() {
  TW_RETURN_IF_ERROR(compact());
  TW_RETURN_IF_ERROR(prepare());
  for (int64_t chunk = 0; chunk < config_.chunks(p_); ++chunk) {
    selectChunk(chunk);
    TW_RETURN_IF_ERROR(exponentials());
    if (p_.keepsExponentials()) TW_RETURN_IF_ERROR(gradients(chunk));
  }
  if (p_.hasSecondPass()) TW_RETURN_IF_ERROR(secondPass());
  return finish();
}

Status Launches::gradients(int64_t chunk) {
  selectClasses(0, p_.classes);
  TW_RETURN_IF_ERROR(complete());
  if (p_.wantsClassGradients() && !p_.hasSecondPass()) {
    TW_RETURN_IF_ERROR(sortLabels());
    TW_RETURN_IF_ERROR(prepareWeightGradient());
    TW_RETURN_IF_ERROR(classGradients(chunk));
  }
  if (kernels_.keep) TW_RETURN_IF_ERROR(keep());
  return p_.dHidden ? hiddenGradient() : Status(); // whose tail lies where the chunk's rows were
}

/// E of the first classes, as a second pass would make it again.
Status Launches::keep() {
  KernelArguments arguments = {c_.e.columns(0, config_.keptClasses), c_.compactLabel};
  if (p_.completion() == Completion::none) arguments.push_back(c_.scale);
  arguments.push_back(w_.kept.e.rows(first_, c_.e.sizes[0]));
  return launch(kernels_.keep, arguments);
}

/// dW and db of all rows, one slice of the classes after the other.
Status Launches::secondPass() {
  selectAllRows();
  TW_RETURN_IF_ERROR(launch(kernels_.copyRows, {t_.hidden, c_.row, c_.xc}));
  if (kernels_.copyWidened) TW_RETURN_IF_ERROR(launch(kernels_.copyWidened, {t_.hidden, c_.row, c_.xs}));
  TW_RETURN_IF_ERROR(sortLabels());
  TW_RETURN_IF_ERROR(prepareWeightGradient());
  for (const Slice &slice : config_.slices(p_)) {
    TW_RETURN_IF_ERROR(completeSlice(slice));
    TW_RETURN_IF_ERROR(classGradients(0));
  }
  return Status();
}

Status Launches::completeSlice(const Slice &slice) {
  const bool isKept = slice.place == Slice::Place::kept;
  const SliceMemory &memory = isKept ? w_.kept : slice.place == Slice::Place::lent ? w_.lentSlice : w_.slice;
  selectClasses(slice.first, slice.count);
  c_.e = memory.e.columns(isKept ? slice.first : 0, slice.count);
  c_.u = memory.u;
  return isKept ? Status() : completeAgain(kernels_.again, slice.first);
}

Status Launches::classGradients(int64_t part) {
  if (p_.dWeight) TW_RETURN_IF_ERROR(weightGradient(part));
  return p_.dBias ? biasGradient(part) : Status();
}

// The last chunk's rows are those that a call leaves behind it. How a chunk of dW is stored depends on its
// number; most are in the middle.
Status Launches::prepareProduct(ProductKind product) {
  selectChunk(config_.chunks(p_) - 1);
  if (product == ProductKind::dHidden) return Status();
  TW_RETURN_IF_ERROR(compact());
  return gatherRows(); // nothing is pending after a call, and dX's tail may lie where rows were
}

Status Launches::launchProduct(ProductKind product) {
  selectChunk(config_.chunks(p_) - 1);
  if (product == ProductKind::forward) return forward();
  selectClasses(0, p_.classes);
  if (product == ProductKind::dHidden) return hiddenGradient();
  return weightProduct(std::min<int64_t>(1, config_.chunks(p_) - 1), 0, weightColumnsFrom(0));
}

Status Launches::compact() {
  if (p_.rows == 0) TW_RETURN_IF_ERROR(fill(device_, w_.summary, 0, stream_)); // which no program does then
  for (const TensorRef &ofRows : {w_.entropy, w_.correct, w_.top, w_.norm})    // what ignored rows keep
    if (ofRows.data) TW_RETURN_IF_ERROR(fill(device_, ofRows, 0, stream_));
  if (w_.argmax.data) TW_RETURN_IF_ERROR(fill(device_, w_.argmax, 0xFF, stream_));
  KernelArguments arguments = {t_.label,   options_.ignoreIndex,  p_.classes, w_.row, w_.compactLabel,
                               w_.summary, device_.labelReport(), w_.rowLoss, w_.lse};
  if (p_.dHidden) arguments.push_back(t_.dHidden);
  return launch(kernels_.compactRows, arguments);
}

/// What options need of all rows or classes beforehand.
Status Launches::prepare() {
  if (p_.terms.classWeight) {
    TW_RETURN_IF_ERROR(launch(kernels_.rowWeights, {w_.compactLabel, t_.classWeight, w_.rowWeight}));
    TW_RETURN_IF_ERROR(launch(kernels_.weightFacts,
                              {w_.rowWeight, t_.classWeight, w_.summary, w_.weightFacts, w_.firstBadWeight}));
  }
  if (p_.terms.margin) {
    KernelArguments arguments = {t_.weight};
    append(arguments, {t_.classWeight, w_.classNorm, w_.classFactor});
    TW_RETURN_IF_ERROR(launch(kernels_.classNorms, arguments));
  }
  if (kernels_.widenSums) TW_RETURN_IF_ERROR(launch(kernels_.widenSums, {w_.partial, t_.dWeight}));
  if (!p_.isUniformRankOne() || !p_.dHidden) return Status();
  selectClasses(0, p_.classes);
  return sumUp(kernels_.sumClasses, t_.weight, s_.classFactor, w_.classSum);
}

void Launches::selectChunk(int64_t chunk) {
  first_ = chunk * config_.chunkRows;
  const int64_t rows = std::min(config_.chunkRows, p_.rows - first_);
  c_ = w_;
  c_.row = w_.row.rows(first_, rows);
  c_.compactLabel = w_.compactLabel.rows(first_, rows);
  const auto narrow = [&](const std::vector<TensorRef *> &tensors, int64_t first) {
    for (TensorRef *tensor : tensors)
      if (tensor->data) *tensor = tensor->rows(first, rows);
  };
  narrow({&c_.xc, &c_.target, &c_.redo, &c_.sums, &c_.tops, &c_.total, &c_.best, &c_.e, &c_.rate,
          &c_.targetRate, &c_.self},
         0);
  for (TensorRef &sum : c_.rowSums)
    narrow({&sum}, 0);
  // A second pass needs these of all rows.
  narrow({&c_.anchor, &c_.scale, &c_.oneHot, &c_.rowNorm, &c_.factor, &c_.moment, &c_.uniform},
         p_.hasSecondPass() ? first_ : 0);
  if (!p_.hasSecondPass()) narrow({&c_.xs, &c_.u, &c_.order, &c_.run}, 0);
}

void Launches::selectAllRows() {
  first_ = 0;
  c_ = w_;
  c_.xc = w_.allX;
}

void Launches::selectClasses(int64_t first, int64_t count) {
  const TensorRef &norms = w_.classNorm.data ? w_.classNorm : t_.classWeight;
  s_ = {t_.weight,    t_.classWeight, w_.classFactor.data ? w_.classFactor : norms,
        t_.dWeight,   t_.dBias,       w_.slot,
        w_.labelSums, w_.partial,     w_.partialBias,
        values_};
  for (TensorRef *tensor :
       {&s_.weight, &s_.classWeight, &s_.classFactor, &s_.dWeight, &s_.dBias, &s_.slot, &s_.labelSums,
        &s_.partial, &s_.partialBias, &s_.values.bias, &s_.values.classNorm})
    if (tensor->data) *tensor = tensor->rows(first, count);
}

Status Launches::gatherRows() {
  KernelArguments arguments = {t_.hidden, t_.weight, c_.row, c_.compactLabel};
  logitTerms_.bind(values_, arguments);
  append(arguments, {c_.xc, c_.target, c_.anchor, c_.redo, c_.pending, c_.rowNorm, c_.rate, c_.targetRate});
  return launch(kernels_.gatherRows, arguments);
}

/// E and the losses. What comes behind a check is for rows whose anchor was wrong, if there are any.
Status Launches::exponentials() {
  TW_RETURN_IF_ERROR(gatherRows());
  TW_RETURN_IF_ERROR(forward());
  if (p_.wantsTotalsAlone()) {
    TW_RETURN_IF_ERROR(launch(kernels_.totalSums, {c_.sums, c_.total, c_.redo}));
    TW_RETURN_IF_ERROR(launch(kernels_.pendingRows, {c_.redo, c_.pending}));
    TW_RETURN_IF_ERROR(forward(kernels_.forwardOfBlocks, Anchors::ofBlocks));
  }
  if (p_.hasTotals()) {
    TW_RETURN_IF_ERROR(launch(kernels_.joinSums, {c_.sums, c_.tops, c_.redo, c_.total, c_.anchor}));
  } else {
    TW_RETURN_IF_ERROR(launch(kernels_.checkAnchor, {c_.sums, c_.tops, c_.anchor, c_.redo}));
    TW_RETURN_IF_ERROR(launch(kernels_.pendingRows, {c_.redo, c_.pending}));
    TW_RETURN_IF_ERROR(forward());
  }
  return combine();
}

Status Launches::forward() { return forward(kernels_.forward, p_.anchors()); }

Status Launches::forward(const KernelHandle &kernel, Anchors anchors) {
  KernelArguments arguments = {c_.xc, t_.weight, c_.compactLabel};
  if (anchors != Anchors::ofBlocks) arguments.push_back(c_.anchor);
  append(arguments, {c_.pending, c_.rowNorm});
  logitTerms_.bind(values_, arguments);
  if (p_.terms.labelSmoothing) append(arguments, {t_.classWeight});
  arguments.push_back(c_.sums);
  if (anchors != Anchors::ofRowsAlone) arguments.push_back(c_.tops);
  append(arguments, {c_.best});
  for (const TensorRef &sum : c_.rowSums)
    append(arguments, {sum});
  if (p_.completion() != Completion::again) append(arguments, {c_.e}); // which may not be kept
  return launch(kernel, arguments);
}

Status Launches::combine() {
  KernelArguments arguments = {p_.hasTotals() ? c_.total : c_.sums, c_.target, c_.anchor, c_.row,
                               c_.compactLabel};
  if (p_.outputs.best) append(arguments, {c_.tops, c_.best});
  for (const TensorRef &sum : c_.rowSums)
    append(arguments, {sum});
  if (p_.wantsGradients()) append(arguments, {c_.rowNorm});
  rowTerms_.bind(values_, arguments);
  append(arguments, {c_.rowLoss, c_.lse, c_.entropy, c_.argmax, c_.correct, c_.top, c_.norm});
  if (p_.wantsGradients()) {
    append(arguments, {c_.summary, t_.gradOutput});
    if (p_.scalesRows() && !p_.scalesInPlace()) append(arguments, {c_.xc});
    append(arguments, {c_.rate, c_.targetRate, c_.scale, c_.oneHot});
    if (p_.scalesRows()) append(arguments, {c_.xs});
    append(arguments, {c_.factor, c_.moment, c_.uniform, c_.self});
  }
  return launch(kernels_.combine, arguments);
}

Status Launches::complete() {
  if (p_.completion() == Completion::none) return Status();
  if (p_.completion() == Completion::again) return completeAgain(kernels_.complete, 0);
  if (p_.completion() == Completion::rescale)
    return launch(kernels_.complete, {c_.tops, c_.compactLabel, c_.anchor, c_.factor, c_.e});
  KernelArguments arguments = {c_.compactLabel, c_.anchor, c_.factor, c_.moment};
  append(arguments, {c_.rowNorm});
  logitTerms_.bind(s_.values, arguments);
  arguments.push_back(c_.e);
  return launch(kernels_.complete, arguments);
}

Status Launches::completeAgain(const KernelHandle &kernel, int64_t first) {
  const TensorRef &factor = c_.factor.data ? c_.factor : c_.scale;
  KernelArguments arguments = {c_.xc, s_.weight, c_.compactLabel, first, c_.anchor, factor};
  append(arguments, {c_.moment});
  if (!p_.isUniformRankOne() && p_.terms.labelSmoothing) append(arguments, {c_.uniform, s_.classWeight});
  append(arguments, {c_.rowNorm});
  logitTerms_.bind(s_.values, arguments);
  arguments.push_back(c_.e);
  return launch(kernel, arguments);
}

Status Launches::hiddenGradient() {
  const int64_t rows = c_.e.sizes[0];
  const int64_t head = config_.hasTail() ? std::min(rows, config_.tail.begin) : rows;
  if (head > 0) TW_RETURN_IF_ERROR(launch(kernels_.dHidden, hiddenArguments(c_.e.rows(0, head), 0, head)));
  return head < rows ? hiddenTail(head, rows - head) : Status();
}

Status Launches::hiddenTail(int64_t first, int64_t count) {
  TW_RETURN_IF_ERROR(launch(kernels_.dHiddenParts,
                            {c_.e.rows(first, count), t_.weight, c_.row.rows(first, count), c_.products}));
  return launch(kernels_.dHiddenTotal, hiddenArguments(c_.products, first, count));
}

/// `product` is E, or what its products add up from.
KernelArguments Launches::hiddenArguments(const TensorRef &product, int64_t first, int64_t count) const {
  const auto part = [&](const TensorRef &ofRows) { return ofRows.rows(first, count); };
  KernelArguments arguments = {product,        t_.weight,       part(c_.compactLabel),
                               part(c_.scale), part(c_.oneHot), part(c_.row)};
  if (p_.isUniformRankOne()) append(arguments, {part(c_.uniform), c_.classSum});
  if (p_.terms.margin) append(arguments, {part(c_.self), part(c_.xc)});
  arguments.push_back(t_.dHidden);
  return arguments;
}

Status Launches::sortLabels() {
  TW_RETURN_IF_ERROR(fill(device_, w_.slot, 0xFF, stream_)); // -1: the label does not occur
  TW_RETURN_IF_ERROR(launch(kernels_.rankLabels, {c_.compactLabel, c_.order, c_.run, w_.slot}));
  if (!p_.dBias) return Status();
  TW_RETURN_IF_ERROR(fill(device_, w_.labelSums, 0, stream_));
  return launch(kernels_.labelSums, {c_.compactLabel, c_.oneHot, c_.order, c_.run, w_.labelSums});
}

Status Launches::prepareWeightGradient() {
  if (kernels_.scaleRows) TW_RETURN_IF_ERROR(launch(kernels_.scaleRows, {c_.scale, c_.xc, c_.xs, c_.gain}));
  if (!p_.isUniformRankOne() || !p_.dWeight) return Status();
  return sumUp(kernels_.sumRows, c_.xc, c_.uniform, c_.rowSum);
}

/// How many columns of dW are made at once from `first` on.
int64_t Launches::weightColumnsFrom(int64_t first) const {
  const int64_t inPlace = config_.columnsInPlace(p_);
  return std::min(c_.u.sizes[1], (first < inPlace ? inPlace : p_.hidden) - first);
}

Status Launches::weightGradient(int64_t part) {
  for (int64_t first = 0, count = 0; first < p_.hidden; first += count) {
    count = weightColumnsFrom(first);
    TW_RETURN_IF_ERROR(oneHotSums(first, count));
    TW_RETURN_IF_ERROR(weightProduct(part, first, count));
  }
  if (!kernels_.roundSums || part + 1 < config_.weightParts(p_)) return Status();
  return launch(kernels_.roundSums, {w_.partial, t_.dWeight});
}

Status Launches::oneHotSums(int64_t first, int64_t count) {
  KernelArguments arguments = {t_.hidden.columns(first, count), c_.row, c_.oneHot, c_.order, c_.run};
  if (p_.hasSecondPass()) append(arguments, {s_.slot});
  arguments.push_back(c_.u.columns(0, count));
  return launch(kernels_.oneHotSum, arguments);
}

Status Launches::weightProduct(int64_t part, int64_t first, int64_t count) {
  const auto columns = [&](const TensorRef &matrix) {
    return matrix.data ? matrix.columns(first, count) : matrix;
  };
  KernelArguments arguments = {c_.e, columns(c_.xs), c_.u.columns(0, count), s_.slot, w_.summary, first_};
  append(arguments, {c_.gain});
  if (p_.isUniformRankOne()) append(arguments, {columns(c_.rowSum), s_.classFactor});
  arguments.push_back(weightSums(first, count));
  return launch(part == 0 ? kernels_.dWeight.first : kernels_.dWeight.next, arguments);
}

/// Where these columns of dW add up.
TensorRef Launches::weightSums(int64_t first, int64_t count) const {
  const int64_t inPlace = config_.columnsInPlace(p_);
  if (first < inPlace) return sumsInPlace().columns(first, count);
  return s_.partial.data ? s_.partial.columns(first - inPlace, count) : s_.dWeight.columns(first, count);
}

/// dW as fp32, of which a row holds half as many.
TensorRef Launches::sumsInPlace() const {
  TensorRef sums = s_.dWeight;
  sums.element = ElementType::f32;
  sums.rowStride /= 2;
  return sums;
}

Status Launches::biasGradient(int64_t part) {
  const TensorRef parts = w_.biasParts.rows(0, ceilDiv(c_.e.sizes[0], kSummedRows)).columns(0, c_.e.sizes[1]);
  KernelArguments sum = {c_.e};
  if (p_.scalesExponentials()) append(sum, {c_.scale});
  sum.insert(sum.end(), {w_.summary, first_, parts});
  TW_RETURN_IF_ERROR(launch(kernels_.sumExponentials, sum));
  KernelArguments arguments = {parts, s_.labelSums};
  if (p_.isUniformRankOne()) append(arguments, {c_.uniform, s_.classFactor});
  const PartKernels &kernels = kernels_.dBias;
  const bool isLast = kernels.last && part + 1 == config_.weightParts(p_);
  append(arguments, {s_.partialBias});
  if (isLast || !s_.partialBias.data) arguments.push_back(s_.dBias);
  return launch(isLast ? kernels.last : part == 0 ? kernels.first : kernels.next, arguments);
}

Status Launches::finish() {
  if (kernels_.normalise) {
    KernelArguments arguments = {t_.weight, w_.classNorm};
    append(arguments, {w_.partial, t_.dWeight});
    TW_RETURN_IF_ERROR(launch(kernels_.normalise, arguments));
  }
  if (p_.outputs.monitored)
    TW_RETURN_IF_ERROR(launch(kernels_.monitor, {w_.lse, w_.entropy, w_.top, w_.norm, w_.argmax, w_.correct,
                                                 w_.summary, t_.monitored}));
  if (p_.reduction == Reduction::none) return Status();
  return launch(kernels_.reduceLoss, {w_.rowLoss, w_.summary, t_.loss});
}

Status Launches::sumUp(const KernelHandle &kernel, const TensorRef &matrix, const TensorRef &factor,
                       const TensorRef &sum) {
  TensorRef from = matrix;
  for (int step = 0; step == 0 || from.sizes[0] > 1; ++step) {
    const int64_t parts = ceilDiv(from.sizes[0], kSummedRows);
    const TensorRef to = parts <= 1 ? sum : w_.partSums[step % 2].rows(0, parts);
    KernelArguments arguments = {from};
    if (step == 0) append(arguments, {factor});
    arguments.push_back(to);
    TW_RETURN_IF_ERROR(launch(step == 0 ? kernel : kernels_.sumParts, arguments));
    from = to;
  }
  return Status();
}

} // namespace tilewright::lce
