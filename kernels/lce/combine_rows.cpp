#include "kernels/lce/combine_rows.h"

namespace tilewright::lce {

std::string sumsStr(const CombineSpec &spec) {
  std::string text = spec.gradients ? gradientsStr(spec) : "loss";
  for (int s = 0; s < kRowSums; ++s)
    if (spec.sums[s]) text += std::string(",") + rowSumName(static_cast<RowSum>(s));
  return text;
}

void RowParameters::declareResults(KernelBuilder &k, const CombineSpec &spec) {
  const ElementType f32 = ElementType::f32, i32 = ElementType::i32;
  rowLoss = k.output("row_loss", f32, 1), lse = k.output("lse", f32, 1);
  if (spec.outputs.entropy) entropy = k.output("entropy", f32, 1);
  if (spec.outputs.best) argmax = k.output("argmax", i32, 1), correct = k.output("correct", i32, 1);
  if (spec.outputs.monitored) top = k.output("top", f32, 1), norm = k.output("norm", f32, 1);
  if (spec.gradients) declare(k, spec);
}

RowFacts RowParameters::begin(KernelBuilder &k, const Range &rows) const {
  RowFacts facts;
  facts.k = &k;
  facts.number = rowNumbers(k, row, rows);
  facts.label = label[rows];
  return facts;
}

void RowParameters::complete(const CombineSpec &spec, const Range &rows, const Tile &others,
                             RowFacts &facts) const {
  addProbabilities(facts, others);
  if (rowNorm.valid()) facts.rowNorm = rowNorm[rows];
  if (spec.gradients) facts.g = rowGradient(*facts.k, spec.gradients->upstream, upstream, facts.number);
}

void RowParameters::storeLoss(const CombineSpec &spec, const RowFacts &facts, const Tile &loss) const {
  KernelBuilder &k = *facts.k;
  k.scatter(rowLoss, facts.number, loss);
  k.scatter(lse, facts.number, facts.lse);
  if (spec.outputs.entropy) k.scatter(entropy, facts.number, facts.entropy);
}

void RowParameters::storeBest(const CombineSpec &spec, const RowFacts &facts, const Tile &largest,
                              const Tile &itsClass) const {
  KernelBuilder &k = *facts.k;
  k.scatter(argmax, facts.number, itsClass);
  k.scatter(correct, facts.number, select(itsClass == facts.label, integer(k, 1), 0));
  if (!spec.outputs.monitored) return;
  k.scatter(top, facts.number, largest);
  k.scatter(norm, facts.number, sqrt(facts.sums[static_cast<int>(RowSum::squares)]));
}

} // namespace tilewright::lce
