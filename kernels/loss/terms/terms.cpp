#include "kernels/loss/terms/terms.h"

namespace tilewright {

std::string LossTerms::logitStr() const {
  std::string text;
  if (bias) text += std::string(",bias=") + elementName(*bias);
  if (logitScale) text += ",scale";
  if (softcap) text += ",softcap";
  if (margin) text += ",margin";
  return text;
}

std::string LossTerms::rowStr() const {
  std::string text;
  if (prob) text += ",prob";
  if (classWeight) text += ",weights";
  if (labelSmoothing) text += ",smoothing";
  if (zLoss) text += ",z";
  if (gradLse) text += ",glse";
  if (gradEntropy) text += ",gentropy";
  return text;
}

LossTerms termsOf(const LossOptions &options, const OptionTensors &tensors) {
  LossTerms terms;
  terms.logitScale = options.logitScale != 1;
  terms.softcap = options.softcap.has_value();
  terms.prob = options.objective == Objective::prob;
  terms.classWeight = tensors.classWeight.data != nullptr;
  terms.labelSmoothing = options.labelSmoothing > 0;
  terms.zLoss = options.zLoss > 0;
  terms.gradLse = tensors.gradLse.data != nullptr;
  terms.gradEntropy = tensors.gradEntropy.data != nullptr;
  return terms;
}

const char *rowSumName(RowSum sum) {
  constexpr const char *names[] = {"stored",         "exact",          "moments",
                                   "second_moments", "weighed_logits", "squares"};
  static_assert(sizeof names / sizeof *names == kRowSums);
  return names[static_cast<int>(sum)];
}

Tile LogitPlace::perClass(const View &vector) const {
  return classes ? vector[*classes] : vector.gather(label);
}

void addTo(Tile &total, const Tile &part) { total = total.valid() ? total + part : part; }

Tile times(const Tile &a, const Tile &b) {
  if (!a.valid()) return b;
  return b.valid() ? a * b : a;
}

void addProbabilities(RowFacts &row, const Tile &others) {
  const Tile rest = expm1(row.distance) + others; // Σ_j exp(z_j - a) - 1
  row.logMass = log1p(rest);
  row.lse = row.logMass + row.shift;
  row.nll = row.logMass - row.distance;
  row.v = 1.0 / (rest + 1.0);
  row.other = row.v * others;
  row.probability = row.v * exp(row.distance);
  const Tile moments = row.sums[static_cast<int>(RowSum::moments)];
  if (moments.valid()) row.entropy = row.logMass - (row.v * moments + row.probability * row.distance);
}

Tile factorOfP(const RowTotals &totals) {
  return totals.mass.valid() ? totals.pull + totals.mass : totals.pull;
}

Tile targetGradient(const RowFacts &row, const RowTotals &totals) {
  Tile gradient = -(totals.pull * row.other);
  if (totals.mass.valid()) addTo(gradient, totals.mass * row.probability);
  if (totals.moment.valid()) addTo(gradient, totals.moment * row.probability * row.distance);
  return gradient;
}

LogitTerms::LogitTerms(const LossTerms &terms) {
  if (terms.margin) terms_.push_back(marginTerm());
  if (terms.bias) terms_.push_back(biasTerm(*terms.bias));
  if (terms.logitScale) terms_.push_back(logitScaleTerm());
  if (terms.softcap) terms_.push_back(softcapTerm());
}

void LogitTerms::declare(KernelBuilder &k) const {
  for (const auto &term : terms_)
    term->declare(k);
}

void LogitTerms::bind(const TermValues &values, StepArguments &arguments) const {
  for (const auto &term : terms_)
    term->bind(values, arguments);
}

Tile LogitTerms::logit(const Tile &product, const LogitPlace &place) const {
  Tile z = product;
  for (const auto &term : terms_)
    z = term->apply(z, place);
  return z;
}

Tile LogitTerms::rowRate(const LogitPlace &place) const {
  Tile rate;
  for (const auto &term : terms_)
    rate = times(rate, term->rowRate(place));
  return rate;
}

// Each term that has a class rate is the last one of its chain, so the logit is its result.
Tile LogitTerms::classRate(const Tile &z, const LogitPlace &place) const {
  Tile rate;
  for (const auto &term : terms_)
    rate = times(rate, term->classRate(z, place));
  return rate;
}

// In the order in which they prepare: weights of rows, then what becomes of them.
RowTerms::RowTerms(const LossTerms &terms, bool gradients) {
  if (terms.classWeight) terms_.push_back(classWeightTerm());
  if (terms.labelSmoothing) terms_.push_back(labelSmoothingTerm());
  terms_.push_back(terms.prob ? probTerm() : logProbTerm());
  if (terms.zLoss) terms_.push_back(zLossTerm());
  if (!gradients) return;
  if (terms.gradLse) terms_.push_back(lseGradientTerm());
  if (terms.gradEntropy) terms_.push_back(entropyGradientTerm());
  if (terms.margin) terms_.push_back(marginGradientTerm());
}

void RowTerms::declare(KernelBuilder &k) const {
  for (const auto &term : terms_)
    term->declare(k);
}

void RowTerms::bind(const TermValues &values, StepArguments &arguments) const {
  for (const auto &term : terms_)
    term->bind(values, arguments);
}

RowTotals RowTerms::totals(RowFacts &facts) const {
  RowTotals totals;
  for (const auto &term : terms_)
    term->prepare(facts);
  for (const auto &term : terms_)
    term->add(facts, totals);
  for (const auto &term : terms_)
    term->finish(facts, totals);
  return totals;
}

} // namespace tilewright
