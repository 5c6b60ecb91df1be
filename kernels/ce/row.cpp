#include <limits>

#include "kernels/ce/kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::ce {
namespace {

std::string str(const RowSpec &spec) {
  std::string text = elementName(spec.element);
  if (spec.gradient)
    text += std::string(",dz=") + elementName(spec.gradient->output) + "," + spec.gradient->upstream.str();
  return text + spec.terms.logitStr() + spec.terms.rowStr() + spec.outputs.str();
}

/// The parameters, in their order.
struct Parameters {
  View logits, row, label, classWeights;
  View rowLoss, lse, entropy, argmax, correct, top, norm;
  UpstreamParameters upstream;
  View gradient;

  Parameters(KernelBuilder &k, const RowSpec &spec, const LogitTerms &logitTerms, const RowTerms &rowTerms) {
    const ElementType f32 = ElementType::f32, i32 = ElementType::i32;
    logits = k.input("logits", spec.element, 2);
    row = k.input("row", i32, 1), label = k.input("label", i32, 1);
    logitTerms.declare(k);
    rowTerms.declare(k);
    if (spec.terms.labelSmoothing && spec.terms.classWeight) classWeights = k.input("class_weights", f32, 1);
    rowLoss = k.output("row_loss", f32, 1), lse = k.output("lse", f32, 1);
    if (spec.outputs.entropy) entropy = k.output("entropy", f32, 1);
    if (spec.outputs.best) argmax = k.output("argmax", i32, 1), correct = k.output("correct", i32, 1);
    if (spec.outputs.monitored) top = k.output("top", f32, 1), norm = k.output("norm", f32, 1);
    if (!spec.gradient) return;
    upstream = declareUpstream(k, spec.gradient->upstream);
    gradient = k.output("dlogits", spec.gradient->output, 2);
  }
};

/// One row's logits, whose shift is the largest of them. The target is kept apart from the other classes'
/// exponentials, so that a loss near 0 and its gradient keep their digits.
struct Row {
  Range classes;
  LogitPlace place;
  Tile z, isOther, classWeights; ///< of all classes
  Tile above, e;                 ///< z - a and its exponential
  RowFacts facts;

  Row(KernelBuilder &k, const RowSpec &spec, const Parameters &p, const LogitTerms &terms, const Range &one,
      const Tile &number, const Tile &label)
      : classes(k.whole(p.logits.dim(1))), place{one, classes, label, {}} {
    facts.k = &k;
    facts.number = number, facts.label = label;
    z = terms.logit(p.logits.gather(facts.number, classes), place);
    isOther = classes.positions() != facts.label;
    if (p.classWeights.valid()) classWeights = p.classWeights[classes];

    const Tile others = select(isOther, z, std::numeric_limits<float>::lowest());
    const Tile top = max(others, Axis::columns), mass = sum(exp(others - top), Axis::columns);
    const Tile target = gather(z, facts.label);
    facts.shift = max(top, target);
    facts.distance = target - facts.shift;
    above = z - facts.shift, e = exp(above);
    addSums(spec);
    addProbabilities(facts, mass * exp(top - facts.shift));
    if (spec.gradient) facts.g = rowGradient(k, spec.gradient->upstream, p.upstream, facts.number);
  }

private:
  void addSums(const RowSpec &spec) {
    const auto sumOf = [&](RowSum s, const Tile &x) {
      facts.sums[static_cast<int>(s)] = sum(x, Axis::columns);
    };
    if (spec.outputs.entropy || (spec.gradient && spec.terms.gradEntropy))
      sumOf(RowSum::moments, select(isOther, select(e > 0, e * above, 0), 0)); // where E is 0, z may be -∞
    if (spec.terms.labelSmoothing) sumOf(RowSum::weighedLogits, times(classWeights, z));
    if (spec.outputs.monitored) sumOf(RowSum::squares, z * z);
  }
};

void storeOutputs(KernelBuilder &k, const RowSpec &spec, const Parameters &p, const Row &row) {
  const RowFacts &facts = row.facts;
  if (spec.outputs.entropy) k.scatter(p.entropy, facts.number, facts.entropy);
  if (!spec.outputs.best) return;
  // Not the shift: the target's logit, made by itself, may differ from the row's in its last bit.
  const Tile top = max(row.z, Axis::columns);
  const Tile argmax =
      min(select(row.z == top, row.classes.positions(), std::numeric_limits<int32_t>::max()), Axis::columns);
  k.scatter(p.argmax, facts.number, argmax);
  k.scatter(p.correct, facts.number, select(argmax == facts.label, integer(k, 1), 0));
  if (!spec.outputs.monitored) return;
  k.scatter(p.top, facts.number, top);
  k.scatter(p.norm, facts.number, sqrt(facts.sums[static_cast<int>(RowSum::squares)]));
}

void storeGradient(KernelBuilder &k, const Parameters &p, const LogitTerms &terms, const Row &row,
                   const RowTotals &totals) {
  const RowFacts &facts = row.facts;
  const Tile rate = terms.rowRate(row.place);
  Tile weight = times(factorOfP(totals) * facts.v, rate);
  if (totals.moment.valid())
    weight = weight + times(totals.moment * facts.v, rate) * select(row.e > 0, row.above, 0);
  Tile gradient = select(row.isOther, weight * row.e, times(targetGradient(facts, totals), rate));
  if (totals.uniform.valid()) gradient = gradient - times(times(totals.uniform, rate), row.classWeights);
  k.scatter(p.gradient, facts.number, row.classes, times(gradient, terms.classRate(row.z, row.place)));
}

} // namespace

Kernel row(const RowSpec &spec) {
  return defineKernel("ce_row", str(spec), [spec](KernelBuilder &k) {
    const LogitTerms logitTerms(spec.terms);
    const RowTerms rowTerms(spec.terms, spec.gradient.has_value());
    const Parameters p(k, spec, logitTerms, rowTerms);

    const Range one = k.blockRows(p.row.dim(0), 1);
    const Tile number = p.row[one], label = p.label[one]; // both at once: neither waits for the other
    k.ifThen(k.toCondition(number >= 0), [&] {
      Row row(k, spec, p, logitTerms, one, number, label);
      const RowTotals totals = rowTerms.totals(row.facts);
      k.scatter(p.rowLoss, row.facts.number, totals.loss);
      k.scatter(p.lse, row.facts.number, row.facts.lse);
      storeOutputs(k, spec, p, row);
      if (spec.gradient) storeGradient(k, p, logitTerms, row, totals);
    });
  });
}

} // namespace tilewright::ce
