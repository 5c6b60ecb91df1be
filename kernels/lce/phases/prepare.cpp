#include "kernels/lce/phases/phases.h"

namespace tilewright::lce {

static void addLabels(Emitter &m, StepArguments &arguments) {
  arguments.tensor(tensor::label).index(m.values.options.ignoreIndex).index(m.s.allClasses());
}

void addCompactionArguments(Emitter &m, StepArguments &arguments) {
  addLabels(m, arguments);
  arguments.sequence().tensors({tensor::rowCounts, tensor::rowStarts});
  arguments.tensors({tensor::row, m.globalLabels(), tensor::validCount, tensor::status, tensor::rowLoss,
                     tensor::lse, tensor::dHidden});
}

void emitCompaction(Emitter &m) {
  if (m.s.rows == 0) m.fill(tensor::validCount, 0).tag = kPreparesProducts; // which no program sets then
  for (const TensorId ofRows : {tensor::entropy, tensor::correct, tensor::top, tensor::norm})
    if (m.has(ofRows)) m.fill(ofRows, 0); // what ignored rows keep
  if (m.has(tensor::argmax)) m.fill(tensor::argmax, 0xFF);
  if (numbersAsGathered(m.s, m.c)) return;
  const bool isCounted = m.has(tensor::rowCounts);
  if (isCounted) {
    StepArguments counts = m.arguments();
    addLabels(m, counts);
    m.launch(m.kernel(countRows(m.s.label)), counts.tensor(tensor::rowCounts)).tag = kPreparesProducts;
    m.launch(m.kernel(scanRows()), m.arguments().tensors({tensor::rowCounts, tensor::rowStarts})).tag =
        kPreparesProducts;
  }
  StepArguments arguments = m.arguments();
  addCompactionArguments(m, arguments);
  m.launch(m.kernel(compactRows({m.s.label, m.s.dHidden, isCounted})), arguments).tag = kPreparesProducts;
}

void emitPreparation(Emitter &m) {
  const bool isMean = m.s.reduction == Reduction::mean;
  if (m.s.terms.classWeight) {
    m.launch(m.kernel(rowWeights()),
             m.arguments().tensors({m.globalLabels(), tensor::classWeight, tensor::rowWeight}));
    m.launch(m.kernel(weightFacts(isMean)),
             m.arguments()
                 .tensors({tensor::rowWeight, tensor::classWeight, tensor::validCount})
                 .sequence()
                 .tensors({tensor::weightFacts, tensor::status}));
  }
  if (m.s.terms.margin)
    m.launch(
        m.kernel(rowNorms(m.s.element, m.s.terms.classWeight)),
        m.arguments().tensors({tensor::weight, m.classWeights(), tensor::classNorm, tensor::classFactor}));
  if (m.has(tensor::sumsInPlace) && m.s.accumulate)
    m.launch(m.kernel(widenSums(*m.s.dWeight)), m.arguments().tensors({tensor::partial, tensor::dWeight}));
  if (m.has(tensor::wt)) emitTransposed(m, tensor::weight, {}, tensor::wt);
  if (m.has(tensor::classSum))
    emitSumOfRows(m, tensor::weight, m.classFactor(), tensor::classSum, tensor::classPart0, m.s.classes);
}

void emitTransposed(Emitter &m, TensorId matrix, const ColumnWindow &columns, TensorId transposed) {
  m.launch(m.kernel(transposeMatrix(ElementType::f32)),
           m.arguments().tensor(matrix, {}, columns).tensor(transposed));
}

void emitSumOfRows(Emitter &m, TensorId matrix, TensorId factor, TensorId sum, TensorId part0, int64_t rows) {
  const int ofMatrix = m.kernel(sumRows({m.s.element, factor != kNoTensor}), sumRowsOptions());
  const int ofParts = rows > kSummedRows ? m.kernel(sumRows({ElementType::f32}), sumRowsOptions()) : -1;
  TensorId from = matrix;
  int64_t group = 1; // rows of the matrix that one row of `from` is the sum of
  for (int step = 0; step == 0 || rows > 1; ++step) {
    const auto window = [&](TensorId id) {
      // A chunk may have fewer rows than its tensors.
      if (id == matrix || id == sum) return RowWindow();
      return m.isPerChunk() ? RowWindow{0, RowWindow().end, group} : RowWindow{0, rows};
    };
    StepArguments arguments = m.arguments();
    arguments.tensor(from, window(from));
    if (step == 0 && factor != kNoTensor) arguments.tensor(factor);
    group *= kSummedRows;
    rows = ceilDiv(rows, kSummedRows);
    const TensorId to = rows <= 1 ? sum : part0 + step % 2;
    arguments.tensor(to, window(to));
    m.launch(step == 0 ? ofMatrix : ofParts, arguments);
    from = to;
  }
}

void emitFinish(Emitter &m) {
  if (m.s.terms.margin && m.s.dWeight) {
    const bool inPlace = *m.s.dWeight == ElementType::f32 && !m.s.accumulate;
    m.launch(m.kernel(normalise({m.s.element, *m.s.dWeight, inPlace, m.s.accumulate})),
             m.arguments().tensors({tensor::weight, tensor::classNorm, tensor::partial, tensor::dWeight}));
  }
  if (m.s.outputs.monitored)
    m.launch(m.kernel(monitor()),
             m.arguments().tensors({tensor::lse, tensor::entropy, tensor::top, tensor::norm, tensor::argmax,
                                    tensor::correct, tensor::validCount, tensor::monitored}));
  if (m.s.reducesLoss() && !reducesBesideOneHotSums(m.s, m.c))
    m.launch(m.kernel(reduceLoss(m.s.reduction == Reduction::mean)),
             m.arguments().tensors({tensor::rowLoss, tensor::validCount, tensor::loss}));
}

} // namespace tilewright::lce
