#include "kernels/lce/phases/phases.h"

namespace tilewright::lce {
namespace {

// Of a program of `combine` on a CPU: its vectors hold a column of several rows.
constexpr int64_t kRowsOnCpu = 4;

// Of few rows, which are numbered, too: more programs, each of which waits for less. An H100 takes 8.2, 7.2
// and 10.5 µs for 256×2048 with 1, 2 and 8 rows a program, and 17.2, 11.9 and 10.9 for 1024×2048 (ncu,
// 2026-11-27).
constexpr int64_t kFewRowsAtOnce = 2;

// Of a program that multiplies by the sample of the classes. There are few, and each takes as long as its
// copies do: an H200 takes 19.8 µs for 256 and for 2048 rows of f16, H 2048, with 128 rows a program,
// and 11.8 with 64 (ncu, 2026-11-29).
constexpr int64_t kRowsBySample = 64;

// Of `rowRange`: all valid rows, and those whose shifts were wrong.
constexpr RowWindow kValid{0, 2}, kRetried{2, 4};

bool hasRates(const Scheme &s) { return s.wantsGradients() && !s.terms.logitsAreProducts(); }

bool rowsAreShort(const Emitter &m) {
  return m.target != TargetKind::cpu && m.s.hidden <= kShortRow && !hasFewRows(m.s, m.c);
}

void gather(Emitter &m) {
  StepArguments arguments = m.arguments().tensors({tensor::hidden, tensor::weight});
  const bool numbers = numbersAsGathered(m.s, m.c);
  if (numbers)
    addCompactionArguments(m, arguments);
  else
    arguments.tensors({tensor::row, m.s.isShard() ? tensor::shiftLabel : tensor::compactLabel});
  if (m.s.shiftsByLse) arguments.tensor(tensor::savedLse);
  m.logitTerms.bind(m.values, arguments);
  arguments.tensors({tensor::xc, tensor::target, tensor::shift, tensor::retry, tensor::rowRange,
                     tensor::rowNorm, tensor::rate, tensor::targetRate});
  GatherRowsSpec spec{m.s.element, m.s.terms, hasRates(m.s), m.s.shiftsByLse};
  spec.clearsSlots = ranksInCombine(m.s, m.c);
  if (spec.clearsSlots) arguments.tensor(tensor::slot);
  spec.tellsLargest = m.s.normalisesRows;
  if (numbers) spec.compaction = {m.s.label, m.s.dHidden}, spec.rowsAtOnce = kFewRowsAtOnce;
  arguments.tensor(tensor::largest);
  m.launch(m.kernel(gatherRows(spec), gatherRowsOptions(m.s.element, rowsAreShort(m))), arguments).tag =
      kPreparesProducts;
}

/// What E's rows are first shifted by where the target's logit may be too far from the others for E's type.
void estimateShifts(Emitter &m) {
  StepArguments chosen = m.arguments(), tops = m.arguments();
  chosen.tensors({tensor::weight, m.s.isShard() ? tensor::shiftLabel : tensor::compactLabel});
  chosen.tensor(tensor::rowRange, kValid).tensor(tensor::bias);
  m.launch(m.kernel(sampleClasses(m.s.element, m.s.terms.bias)),
           chosen.tensors({tensor::sample, tensor::sampleLabel, tensor::sampleBias}))
      .tag = kPreparesProducts;
  tops.tensors({tensor::xc, tensor::sample, tensor::compactLabel, tensor::sampleLabel});
  TermValues ofSample = m.values;
  ofSample.bias = tensor::sampleBias;
  m.logitTerms.bind(ofSample, tops);
  Block block = m.c.forward.block;
  CompileOptions options = m.optionsFor(ProductKind::forward);
  if (hasRoles(m.c.forward)) {
    block.rows = kRowsBySample;
    options.schedule.roles = Schedule::WarpRoles::pingPong, options.schedule.clusterCtas = 1;
  }
  m.launch(m.kernel(sampleTops({m.s.element, block, m.s.terms}), options), tops.tensor(tensor::sampleTop))
      .tag = kPreparesProducts;
}

/// Blocks take shifts of their own in a second product, when what options need is known already.
bool isFirst(Shifts shifts) { return shifts != Shifts::ofBlocks; }

/// Whether the product finds sums that are out of range; the second one mends them.
bool tellsRange(const Emitter &m, Shifts shifts) { return isFirst(shifts) && m.s.checksWithLogits; }

int forwardKernel(Emitter &m, Shifts shifts, int tag) {
  const bool stores = m.s.keepsExponentials && m.s.fixUp != FixUp::again;
  ForwardSpec spec{m.s.element, std::nullopt, m.c.forward.block, m.s.terms};
  if (isFirst(shifts)) spec.sums = m.s.rowSums, spec.best = m.s.outputs.best;
  if (stores) spec.exponentials = m.s.exponentials;
  spec.flushesSmall = m.s.flushesSmall && stores && shifts == m.s.shifts && shifts != Shifts::raised;
  spec.shifts = shifts;
  spec.tellsRange = tellsRange(m, shifts);
  CompileOptions options = m.optionsFor(ProductKind::forward);
  // Hardly a row is made again: one order of tiles, and so one kernel, will do for all numbers of rows.
  if (shifts != m.s.shifts) options.schedule.rasterRows = 0;
  return m.kernel(forward(spec), options, tag);
}

/// For the rows of one of these ranges.
Step &launchForward(Emitter &m, int kernel, Shifts shifts, const RowWindow &range) {
  StepArguments arguments = m.arguments();
  arguments.tensors({tensor::xc, tensor::weight, tensor::compactLabel});
  if (isFirst(shifts)) arguments.tensor(shifts == Shifts::raised ? tensor::sampleTop : tensor::shift);
  arguments.tensor(tensor::rowRange, range).tensor(tensor::rowNorm);
  m.logitTerms.bind(m.values, arguments);
  if (isFirst(shifts) && m.s.terms.labelSmoothing) arguments.tensor(m.classWeights());
  if (tellsRange(m, shifts)) arguments.tensor(tensor::rowRange, kRetried);
  arguments.tensor(tensor::sums);
  if (shifts != Shifts::ofRowsAlone) arguments.tensor(tensor::tops);
  if (isFirst(shifts)) {
    arguments.tensor(tensor::best);
    for (int sum = 0; sum < kRowSums; ++sum)
      arguments.tensor(tensor::rowSums + sum);
  }
  if (m.s.fixUp != FixUp::again) arguments.tensor(tensor::e);
  return m.launch(kernel, arguments);
}

/// Which rows' sums are out of range.
void checkSums(Emitter &m) {
  const bool tellsRange = hasFewRows(m.s, m.c);
  const bool tellsTotals = m.s.hasTotals;
  const int check =
      m.kernel(tellsTotals ? totalSums(tellsRange) : checkShifts(tellsRange), rowSumOptions(m.target));
  const std::initializer_list<TensorId> sums = {tensor::sums, tensor::total, tensor::retry};
  const std::initializer_list<TensorId> rows = {tensor::sums, tensor::tops, tensor::shift, tensor::retry};
  StepArguments arguments = m.arguments().tensors(tellsTotals ? sums : rows);
  if (tellsRange) arguments.tensor(tensor::rowRange, kValid).tensor(tensor::rowRange, kRetried);
  m.launch(check, arguments);
  if (!tellsRange)
    m.launch(m.kernel(retryRange()), m.arguments().tensor(tensor::retry).tensor(tensor::rowRange, kRetried));
}

/// A new shift for rows whose sum is out of range, and their exponentials again: programs of other rows
/// return at once, and where there are none, all do. Where the first ones told no largest logits, each block
/// takes its own as its shift.
void repair(Emitter &m, int kernel) {
  if (!m.s.checksWithLogits) checkSums(m);
  if (m.s.shifts == Shifts::ofRowsAlone)
    launchForward(m, forwardKernel(m, Shifts::ofBlocks, kRepairsShifts), Shifts::ofBlocks, kRetried);
  else
    launchForward(m, kernel, m.s.shifts, kRetried);
}

} // namespace

/// Whether the kernel of the losses multiplies rows of X.
static bool scalesRows(const Emitter &m) { return m.s.scalesRows && !scalesBesideOneHotSums(m.s, m.c); }

CombineSpec combineSpec(const Emitter &m) {
  const Scheme &s = m.s;
  CombineSpec spec;
  spec.terms = s.terms;
  spec.sums = s.rowSums;
  spec.outputs = s.outputs;
  spec.hasTotals = s.hasTotals;
  if (s.wantsGradients())
    spec.gradients = {s.element, s.exponentials, {s.upstream, s.reduction == Reduction::mean},
                      s.fixUp,   scalesRows(m),  scalesRows(m) && s.scalesInPlace};
  return spec;
}

/// What the kernel of the losses does with rows before, if anything.
static std::optional<FinishSpec> finishOf(const Emitter &m) {
  const bool mends = m.s.shifts == Shifts::mended;
  if (!m.s.finishesRows && !m.s.checksWithLogits && !mends && !m.s.joinsWithLosses) return std::nullopt;
  const OwnShifts ownShifts = m.s.joinsWithLosses ? OwnShifts::raised
                              : mends             ? OwnShifts::mended
                              : m.s.repairsShifts ? OwnShifts::retried
                                                  : OwnShifts::none;
  return FinishSpec{m.c.forward.block, ownShifts, m.s.finishesRows};
}

void emitCombination(Emitter &m) {
  CombineSpec spec = combineSpec(m);
  spec.finish = finishOf(m);
  StepArguments arguments = m.arguments().tensor(m.s.hasTotals ? tensor::total : tensor::sums);
  if (m.s.finishesRows) arguments.tensor(tensor::e);
  if (spec.finish && spec.finish->ownShifts != OwnShifts::none) {
    if (m.s.hasTotals) arguments.tensor(tensor::sums);
    arguments.tensor(tensor::tops);
    if (spec.finish->ownShifts == OwnShifts::retried) arguments.tensor(tensor::rowRange, kRetried);
  }
  arguments.tensors({tensor::target, tensor::shift, tensor::row, tensor::compactLabel});
  if (m.s.outputs.best) arguments.tensors({tensor::tops, tensor::best});
  for (int sum = 0; sum < kRowSums; ++sum)
    arguments.tensor(tensor::rowSums + sum);
  if (m.s.wantsGradients()) arguments.tensor(tensor::rowNorm);
  addCombineArguments(m, arguments);
  spec.ranksLabels = ranksInCombine(m.s, m.c);
  if (m.target == TargetKind::cpu) spec.rowsAtOnce = kRowsOnCpu;
  if (spec.ranksLabels) arguments.index(kCombineJobs).tensors({tensor::order, tensor::run, tensor::slot});
  m.launch(m.kernel(combine(spec), combineOptions(m.target, rowsAreShort(m))), arguments);
}

void addCombineArguments(Emitter &m, StepArguments &arguments) {
  m.rowTerms.bind(m.values, arguments);
  arguments.tensors({tensor::rowLoss, tensor::lse, tensor::entropy, tensor::argmax, tensor::correct,
                     tensor::top, tensor::norm});
  if (!m.s.wantsGradients()) return;
  arguments.tensors({tensor::validCount, tensor::gradOutput});
  if (scalesRows(m) && !m.s.scalesInPlace) arguments.tensor(tensor::xc);
  arguments.tensors({tensor::rate, tensor::targetRate, tensor::unitOfE, tensor::scale, tensor::oneHot});
  if (scalesRows(m)) arguments.tensor(tensor::xs);
  arguments.tensors({tensor::factor, tensor::moment, tensor::uniform, tensor::self});
}

void emitExponentials(Emitter &m) {
  gather(m);
  if (m.s.fixUp == FixUp::rescale) estimateShifts(m);
  const int kernel = forwardKernel(m, m.s.shifts, tagOf(ProductKind::forward));
  launchForward(m, kernel, m.s.shifts, kValid).tag = tagOf(ProductKind::forward);
  if (m.s.repairsShifts) repair(m, kernel);
  if (m.s.joinsSums)
    m.launch(m.kernel(joinSums(m.has(tensor::unitOfE)), rowSumOptions(m.target)),
             m.arguments().tensors(
                 {tensor::sums, tensor::tops, tensor::retry, tensor::total, tensor::shift, tensor::unitOfE}));
}

void emitFixUp(Emitter &m) {
  if (m.s.fixUp == FixUp::again)
    return emitAgain(m, ProductKind::forward, tensor::xc, tensor::e, 0, m.s.classes);
  if (m.s.fixUp == FixUp::rescale)
    m.launch(m.kernel(rescale({m.s.exponentials, m.c.forward.block.columns, m.s.flushesSmall}),
                      Emitter::passOptions()),
             m.arguments().tensors({tensor::tops, tensor::compactLabel, tensor::unitOfE, tensor::shift,
                                    tensor::factor, tensor::e}));
  if (m.s.fixUp != FixUp::inPlace) return;
  StepArguments arguments = m.arguments();
  arguments.tensors({tensor::compactLabel, tensor::shift, tensor::factor, tensor::moment, tensor::rowNorm});
  m.logitTerms.bind(m.values, arguments);
  arguments.tensor(tensor::e);
  m.launch(m.kernel(fixUpInPlace({m.s.element, m.s.exponentials, kInPlaceBlock, m.s.terms}),
                    Emitter::passOptions()),
           arguments);
}

void emitAgain(Emitter &m, ProductKind kind, TensorId rows, TensorId e, int64_t first, int64_t classes) {
  const bool isUniform = m.s.terms.labelSmoothing && !m.s.isUniformRankOne;
  const FixUpSpec spec{m.s.element, m.s.exponentials, m.c[kind].block,
                       m.s.terms,   m.s.flushesSmall, isUniform};
  StepArguments arguments = m.arguments();
  arguments.tensors({rows, tensor::weight, tensor::compactLabel}).index(first).tensor(tensor::shift);
  arguments.tensors({m.has(tensor::factor) ? tensor::factor : tensor::scale, tensor::moment});
  if (isUniform) arguments.tensors({tensor::uniform, m.classWeights()});
  arguments.tensor(tensor::rowNorm);
  m.logitTerms.bind(m.values, arguments);
  arguments.tensor(e, {}, {0, classes});
  m.launch(m.kernel(fixUpAgain(spec), m.optionsFor(kind), tagOf(kind)), arguments);
}

} // namespace tilewright::lce
