#include <algorithm>

#include "kernels/lce/label_sort.h"
#include "kernels/lce/phases/phases.h"

namespace tilewright::lce {
namespace {

constexpr int64_t kOneHotColumns = 2048; // of one program of the one-hot sum; wider rows are split

/// How the parts of a gradient become its output, where there are several.
struct Summation {
  bool accumulate = false; ///< the output's old contents are added, too
  bool widened = false;    ///< and are in the sums before the first part is
  bool finishes = false;   ///< the last part's kernel stores the output
};

/// The kernels that make a gradient's sums in fp32, or the output of one part.
template <typename Make>
PartKernels partKernels(Emitter &m, ElementType output, const Summation &summation,
                        const CompileOptions &options, int tag, const Make &make) {
  using Mode = Accumulation::Mode;
  const ElementType f32 = ElementType::f32;
  if (m.c.weightParts(m.s) == 1)
    return {m.kernel(make(Accumulation{Mode::store, summation.accumulate}, output), options, tag)};
  const bool isSum = output == f32; // else it has a buffer
  const bool addsFirst = summation.accumulate && (isSum || summation.widened);
  PartKernels kernels;
  kernels.first = m.kernel(make(Accumulation{addsFirst ? Mode::add : Mode::store}, f32), options, tag);
  if (!summation.finishes || m.c.weightParts(m.s) > 2)
    kernels.next = m.kernel(make(Accumulation{Mode::add}, f32), options, tag);
  if (summation.finishes)
    kernels.last = m.kernel(make(Accumulation{Mode::finish, summation.accumulate}, output), options, tag);
  return kernels;
}

/// A launch of each of them, in its turns. `toOutput`: of the last one, where it takes the sums to the
/// output.
void launchParts(Emitter &m, const PartKernels &kernels, const StepArguments &toSums,
                 const StepArguments &toOutput, int tag = -1) {
  const auto add = [&](int kernel, int turns, const StepArguments &arguments) {
    if (kernel < 0) return;
    Step &step = m.launch(kernel, arguments);
    step.turns = static_cast<uint8_t>(turns);
    step.tag = tag;
  };
  const bool finishes = kernels.last >= 0, isOne = kernels.next < 0 && !finishes;
  add(kernels.first, isOne ? kEveryTurn : kFirstTurn, toSums);
  add(kernels.next, finishes ? kMiddleTurns : kLaterTurns, toSums);
  add(kernels.last, kLastTurn, toOutput);
}

/// A power of two: few kernels, and of short rows no program with more columns than there are.
int64_t oneHotColumns(const Emitter &m) {
  int64_t columns = 64;
  while (columns < m.s.hidden && columns < kOneHotColumns)
    columns *= 2;
  return columns;
}

/// Where the kernel that scales rows of X for f16 has their gain from.
Gain gainOfScaling(const Emitter &m) { return comparesAllPairs(m.s, m.c) ? Gain::made : Gain::given; }

void oneHotSums(Emitter &m, TensorId u, int64_t first, int64_t count) {
  StepArguments arguments = m.arguments();
  arguments.tensor(tensor::hidden, {}, {first, count});
  arguments.tensors({tensor::row, tensor::oneHot, tensor::order, tensor::run});
  OneHotSumSpec spec{m.s.element, oneHotColumns(m)};
  if (m.target != TargetKind::cpu && !hasFewRows(m.s, m.c)) spec.positions = oneHotRowsAtOnce(spec.columns);
  spec.place = m.oneHotPlace();
  if (spec.place == OneHotPlace::label) arguments.tensor(m.ownLabels()).index(m.firstClass());
  spec.ofPieces = m.has(tensor::pieces);
  if (spec.ofPieces) arguments.tensor(tensor::pieces, m.pieceRows(), {first, count});
  spec.scalesRows = scalesBesideOneHotSums(m.s, m.c);
  if (m.s.normalisesRows) spec.gain = spec.scalesRows ? gainOfScaling(m) : Gain::given;
  if (spec.gain == Gain::given) arguments.tensor(tensor::gain);
  arguments.tensor(u, {}, {0, count});
  if (spec.scalesRows) arguments.tensor(tensor::scale).tensor(tensor::xs, {}, {first, count});
  if (spec.gain == Gain::made) arguments.tensors({tensor::largest, tensor::gain});
  if (first == 0 && reducesBesideOneHotSums(m.s, m.c)) {
    spec.reduction = m.s.reduction;
    arguments.tensors({tensor::rowLoss, tensor::validCount, tensor::loss});
  }
  CompileOptions options = oneHotSumOptions();
  const bool isBehindHidden = m.isPerChunk() && first == 0; // later columns take the same u
  options.schedule.runsBeside = isBehindHidden && sumsRunBesideHidden(m.s, m.c);
  m.launch(m.kernel(oneHotSum(spec), options), arguments);
}

PartKernels weightKernels(Emitter &m) {
  // What is still to be normalised is in fp32, and adds to nothing.
  const ElementType output = m.s.terms.margin ? ElementType::f32 : *m.s.dWeight;
  const bool accumulate = m.s.accumulate && !m.s.terms.margin;
  const Summation summation = {accumulate, m.has(tensor::sumsInPlace), roundsInProduct(m.s, m.c)};
  return partKernels(
      m, output, summation, m.optionsFor(ProductKind::dWeight), tagOf(ProductKind::dWeight),
      [&](const Accumulation &accumulation, ElementType type) {
        // A tile of 192×128 that reads sums, too, has no registers for all classes' rows of u.
        const bool skips = accumulation.mode == Accumulation::Mode::finish || hasFewRows(m.s, m.c);
        return dWeight({m.s.exponentials, type, accumulation, m.c.dWeight.block, m.s.isUniformRankOne,
                        m.hasUniformFactor(), m.s.normalisesRows, m.oneHotPlace(), m.has(tensor::et), skips});
      });
}

/// Columns [first, first + count) of where dW adds up.
void addWeightSums(Emitter &m, StepArguments &arguments, int64_t first, int64_t count) {
  const int64_t inPlace = m.c.columnsInPlace(m.s);
  if (first < inPlace)
    arguments.tensor(tensor::sumsInPlace, {}, {first, count});
  else if (m.has(tensor::partial))
    arguments.tensor(tensor::partial, {}, {first - inPlace, count});
  else
    arguments.tensor(tensor::dWeight, {}, {first, count});
}

void weightProduct(Emitter &m, const PartKernels &kernels, TensorId e, TensorId u, const ColumnWindow &ofE,
                   int64_t first, int64_t count) {
  StepArguments arguments = m.arguments();
  if (m.has(tensor::et))
    arguments.tensor(tensor::et).tensor(tensor::xst, {first, first + count});
  else
    arguments.tensor(e, {}, ofE).tensor(tensor::xs, {}, {first, count});
  arguments.tensor(u, {}, {0, count});
  arguments.tensors({tensor::slot, tensor::validCount}).firstRow().tensor(tensor::gain);
  if (m.s.isUniformRankOne) {
    arguments.tensor(tensor::rowSum, {}, {first, count});
    if (m.classFactor() != kNoTensor) arguments.tensor(m.classFactor());
  }
  addWeightSums(m, arguments, first, count);
  StepArguments toOutput = arguments;
  toOutput.tensor(tensor::dWeight, {}, {first, count});
  launchParts(m, kernels, arguments, toOutput, first == 0 ? tagOf(ProductKind::dWeight) : -1);
}

/// Some columns at a time, lest u becomes large; those that add up in place apart from the others.
void weightGradient(Emitter &m, TensorId e, TensorId u, const ColumnWindow &ofE, int64_t columns) {
  const PartKernels kernels = weightKernels(m);
  const int64_t inPlace = m.c.columnsInPlace(m.s);
  if (m.has(tensor::et)) {
    emitTransposed(m, e, ofE, tensor::et);
    emitTransposed(m, tensor::xs, {}, tensor::xst);
  }
  for (int64_t first = 0, count = 0; first < m.s.hidden; first += count) {
    count = std::min(columns, (first < inPlace ? inPlace : m.s.hidden) - first);
    oneHotSums(m, u, first, count);
    weightProduct(m, kernels, e, u, ofE, first, count);
  }
  if (!m.has(tensor::partial) || m.s.terms.margin || kernels.last >= 0) return;
  const bool isInPlace = m.has(tensor::sumsInPlace);
  m.launch(m.kernel(roundSums({*m.s.dWeight, isInPlace, m.s.accumulate && !isInPlace})),
           m.arguments().tensors({tensor::partial, tensor::dWeight}))
      .turns = kLastTurn;
}

void biasGradient(Emitter &m, TensorId e, const ColumnWindow &ofE) {
  const RowWindow parts = {0, RowWindow().end, m.isPerChunk() ? kSummedRows : 1};
  StepArguments sums = m.arguments();
  sums.tensor(e, {}, ofE);
  if (m.s.scalesExponentials) sums.tensor(tensor::scale);
  sums.tensor(tensor::validCount).firstRow().tensor(tensor::biasParts, parts, {0, ofE.count});
  m.launch(m.kernel(sumRows({m.s.exponentials, m.s.scalesExponentials, true}), sumRowsOptions()), sums);

  const auto make = [&](const Accumulation &accumulation, ElementType type) {
    return dBias({type, accumulation, m.s.isUniformRankOne, m.hasUniformFactor()});
  };
  StepArguments arguments = m.arguments();
  arguments.tensor(tensor::biasParts, parts, {0, ofE.count}).tensor(tensor::labelSums);
  if (m.s.isUniformRankOne) {
    arguments.tensor(tensor::uniform);
    if (m.classFactor() != kNoTensor) arguments.tensor(m.classFactor());
  }
  const Summation summation = {m.s.accumulate, false, m.has(tensor::partialBias)};
  const PartKernels kernels = partKernels(m, *m.s.dBias, summation, {}, -1, make);
  StepArguments toSums = arguments;
  toSums.tensor(m.has(tensor::partialBias) ? tensor::partialBias : tensor::dBias);
  launchParts(m, kernels, toSums, arguments.tensors({tensor::partialBias, tensor::dBias}));
}

/// Sorted blocks of rows, and merges of them. Each step reads what the one before wrote, to one of two pairs
/// of tensors in turn, and the last merge reads the pair that is not its own.
void sortInBlocks(Emitter &m) {
  const std::vector<int64_t> merges = planMerges(m.c.weightRows(m.s));
  const auto addPair = [&](StepArguments &arguments, std::size_t merge) {
    const bool ofBlocks = (merges.size() - merge) % 2 == 1;
    arguments.tensor(ofBlocks ? tensor::blockLabels : tensor::run);
    arguments.tensor(ofBlocks ? tensor::blockRows : tensor::order);
  };
  StepArguments sort = m.arguments().tensor(m.ownLabels());
  addPair(sort, 0);
  m.launch(m.kernel(sortBlocks(), sortBlocksOptions(m.target)), sort);
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const bool isLast = i + 1 == merges.size();
    StepArguments arguments = m.arguments();
    addPair(arguments, i);
    if (isLast)
      arguments.tensors({tensor::order, tensor::run, tensor::slot});
    else
      addPair(arguments, i + 1);
    m.launch(m.kernel(mergeBlocks({merges[i], isLast}), mergeBlocksOptions(m.target)), arguments);
  }
}

/// Σ of the targets' parts of db over each label's rows.
void sumLabels(Emitter &m) {
  m.fill(tensor::labelSums, 0);
  if (!m.has(tensor::labelPieces)) {
    m.launch(m.kernel(labelSums()), m.arguments().tensors({m.ownLabels(), tensor::oneHot, tensor::order,
                                                           tensor::run, tensor::labelSums}));
    return;
  }
  StepArguments pieces = m.arguments(), sums = m.arguments();
  pieces.tensors({tensor::oneHot, m.ownLabels(), tensor::order, tensor::run, tensor::slot});
  m.launch(m.kernel(labelPieces()), pieces.tensor(tensor::labelPieces, m.pieceRows()));
  sums.tensors({tensor::oneHot, tensor::order, tensor::run, tensor::slot});
  m.launch(m.kernel(labelSumsOfPieces()),
           sums.tensor(tensor::labelPieces, m.pieceRows()).tensor(tensor::labelSums));
}

void sortRows(Emitter &m) {
  m.fill(tensor::slot, 0xFF); // -1: the label does not occur
  if (m.has(tensor::blockLabels)) return sortInBlocks(m);
  const int sort = comparesAllPairs(m.s, m.c) ? m.kernel(rankLabels(), rankLabelsOptions(m.target))
                                              : m.kernel(countLabels());
  m.launch(sort, m.arguments().tensors({m.ownLabels(), tensor::order, tensor::run, tensor::slot}));
}

/// The gain, and rows of X over it, but for what the kernel of the one-hot sums does.
void normaliseRows(Emitter &m, TensorId rows) {
  if (m.s.rows == 0) m.fill(tensor::gain, 0); // which no program would store
  const Gain gain = gainOfScaling(m);
  const bool isMade = gain == Gain::made;
  if (!isMade)
    m.launch(m.kernel(rowsGain(), rowsGainOptions(m.target)),
             m.arguments().tensors({tensor::scale, tensor::largest, tensor::gain}));
  if (scalesBesideOneHotSums(m.s, m.c)) return;
  StepArguments arguments = m.arguments().tensor(tensor::scale);
  arguments.tensor(isMade ? tensor::largest : tensor::gain).tensors({rows, tensor::xs});
  if (isMade) arguments.tensor(tensor::gain);
  m.launch(m.kernel(scaleRows({m.s.element, gain})), arguments);
}

} // namespace

void emitSort(Emitter &m) {
  if (!ranksInCombine(m.s, m.c)) sortRows(m);
  if (m.s.dBias) sumLabels(m);
  if (m.has(tensor::pieces)) {
    StepArguments arguments = m.arguments();
    arguments.tensors({tensor::hidden, tensor::row, tensor::oneHot, m.ownLabels(), tensor::order, tensor::run,
                       tensor::slot});
    m.launch(m.kernel(oneHotPieces(m.s.element, oneHotColumns(m)), oneHotSumOptions()),
             arguments.tensor(tensor::pieces, m.pieceRows()));
  }
  const TensorId rows = m.s.hasSecondPass ? tensor::allX : tensor::xc;
  if (m.s.normalisesRows) normaliseRows(m, rows);
  if (m.has(tensor::rowSum))
    emitSumOfRows(m, rows, tensor::uniform, tensor::rowSum, tensor::rowPart0, m.c.weightRows(m.s));
}

void emitClassGradients(Emitter &m, TensorId e, TensorId u, int64_t firstColumn, int64_t classes) {
  const ColumnWindow ofE = {firstColumn, classes};
  if (m.s.dWeight) weightGradient(m, e, u, ofE, m.columnsOf(u));
  if (m.s.dBias) biasGradient(m, e, ofE);
}

} // namespace tilewright::lce
