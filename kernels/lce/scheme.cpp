#include "kernels/lce/scheme.h"

namespace tilewright::lce {
namespace {

ElementType exponentialsOf(const Scheme &s) {
  if (s.element != ElementType::f16) return s.element;
  return (s.recompute || s.tensorCores) && !s.terms.margin ? ElementType::f16 : ElementType::f32;
}

/// Whether an output of the rows needs more of E than its sum.
bool asksMoreOfRows(const Scheme &s) { return s.outputs.entropy || s.outputs.best || s.outputs.monitored; }

/// A row's shift is estimated before E of f16 is made, and a row's gradient is E times a factor: where a
/// block's exponentials left f16's range, a pass over the row is far less than another product.
bool isRescaled(const Scheme &s) {
  const bool isFactorOfRow = !s.terms.labelSmoothing && !s.terms.gradEntropy && !s.terms.hasClassRates();
  return s.keepsExponentials && isFactorOfRow && !asksMoreOfRows(s);
}

FixUp fixUpOf(const Scheme &s) {
  if (!s.wantsGradients()) return FixUp::none;
  if (s.exponentials == ElementType::f16) return isRescaled(s) ? FixUp::rescale : FixUp::again;
  // Where logits of no weight have a share in the gradient, E no longer tells what they were.
  if (s.terms.labelSmoothing && s.terms.softcap) return FixUp::again;
  return s.terms.gradEntropy ? FixUp::inPlace : FixUp::none;
}

/// On a GPU the products of logits of narrow hidden states take as long as what is done with each logit.
bool finishesRowsOf(const Scheme &s) {
  return s.tensorCores && s.keepsExponentials && s.exponentials == ElementType::bf16 && !s.isShard() &&
         s.wantsGradients() && s.fixUp == FixUp::none && !s.terms.hasClassRates() && !asksMoreOfRows(s);
}

PerRowSum<bool> rowSumsOf(const Scheme &s) {
  PerRowSum<bool> wanted = {};
  const auto want = [&](RowSum sum, bool is) { wanted[static_cast<int>(sum)] = is; };
  const bool gradients = s.wantsGradients(), products = gradients && s.fixUp == FixUp::none;
  want(RowSum::stored, s.keepsExponentials && (products || s.fixUp == FixUp::inPlace) && !s.finishesRows);
  want(RowSum::exact, s.keepsExponentials && products && s.terms.hasClassRates());
  want(RowSum::moments, s.outputs.entropy || (gradients && (s.terms.gradEntropy || s.terms.margin)));
  want(RowSum::secondMoments, gradients && s.terms.gradEntropy && s.terms.margin);
  want(RowSum::weighedLogits, s.terms.labelSmoothing);
  want(RowSum::squares, s.outputs.monitored);
  return wanted;
}

bool hasAtMost(const Scheme &s, int64_t most) {
  return s.tensorCores && !s.isShard() && 0 < s.rows && s.rows <= most;
}

/// Blocks that mend their own sums save a launch that shows beside the product of so few rows: of 256 rows an
/// H200 takes 0.995 of the time. Of 2048 rows, whose blocks are larger, it takes 1.02; and ptxas spills where
/// more than the product's numbers are needed to make logits once more (CUDA 13.0, 2026-11-29).
bool mendsBlocks(const Scheme &s) {
  constexpr int64_t kMostRows = 256;
  return s.wantsTotalsAlone && s.pass == CallPass::fused && s.terms.logitsAreProducts() &&
         hasAtMost(s, kMostRows);
}

Shifts shiftsOf(const Scheme &s) {
  if (s.fixUp == FixUp::rescale) return Shifts::raised;
  if (mendsBlocks(s)) return Shifts::mended;
  return s.wantsTotalsAlone || s.finishesRows || s.shiftsByLse ? Shifts::ofRowsAlone : Shifts::ofRows;
}

bool checksWithLogitsOf(const Scheme &s) {
  return s.shifts == Shifts::ofRowsAlone && s.repairsShifts && hasAtMost(s, kFewRows);
}

} // namespace

Scheme schemeFor(const Request &request, Variant variant) {
  Scheme s;
  static_cast<Request &>(s) = request;
  s.recompute = variant == Variant::recompute;
  s.hasSecondPass = s.recompute && s.wantsClassGradients();
  s.keepsExponentials = s.dHidden || (s.wantsClassGradients() && !s.recompute);
  s.exponentials = exponentialsOf(s);
  s.fixUp = fixUpOf(s);
  const bool isSame = s.element == s.exponentials;
  s.scalesRows = s.dWeight && !s.recompute && (s.fixUp == FixUp::none || !isSame);
  s.normalisesRows = s.dWeight && s.exponentials == ElementType::f16;
  const bool isScaled = s.scalesRows || (s.normalisesRows && !s.recompute);
  s.scalesInPlace = isScaled && isSame && !s.terms.labelSmoothing && !s.terms.margin;
  s.transposes = s.tf32 && s.aligned && !s.recompute;
  s.scalesExponentials = !s.recompute || s.exponentials == ElementType::f16;
  s.isUniformRankOne = s.wantsGradients() && s.terms.labelSmoothing && s.fixUp != FixUp::again;
  s.hasClassFactor = s.terms.classWeight || s.terms.margin;
  s.finishesRows = finishesRowsOf(s);
  s.rowSums = rowSumsOf(s);
  s.wantsTotalsAlone = !s.wantsGradients() && !s.outputs.best && s.rowSums == PerRowSum<bool>{};
  s.shiftsByLse = s.pass == CallPass::backward && s.fixUp != FixUp::rescale;
  s.shifts = shiftsOf(s);
  const bool isMended = s.shifts == Shifts::mended;
  s.repairsShifts = s.shifts != Shifts::raised && !isMended && s.pass == CallPass::fused;
  s.checksWithLogits = checksWithLogitsOf(s);
  s.joinsWithLosses = s.fixUp == FixUp::rescale && hasAtMost(s, kFewRows);
  s.joinsSums = (s.fixUp == FixUp::rescale && !s.joinsWithLosses) ||
                (s.wantsTotalsAlone && !s.checksWithLogits && !isMended);
  s.hasTotals = s.joinsSums || (s.finishesRows && s.repairsShifts && !s.checksWithLogits);
  s.flushesSmall = s.flushSmallProbabilities && s.exponentials != ElementType::f32;
  return s;
}

const char *rowSumName(int sum) {
  constexpr const char *names[kRowSums] = {"sums of stored", "exact sums",     "moments",
                                           "second moments", "weighed logits", "squares"};
  return names[sum];
}

std::string Scheme::str() const {
  std::string text = keepsExponentials ? std::string("E ") + elementName(exponentials) : "E not kept";
  const auto say = [&](bool is, const std::string &what) { text += is ? ", " + what : ""; };
  say(flushesSmall, "small ones flushed");
  say(true, shiftsByLse                ? "shifts: saved lse"
            : shifts == Shifts::raised ? "shifts of a sample"
                                       : "shifts of rows");
  say(repairsShifts, "repaired");
  say(shifts == Shifts::mended, "mended by blocks");
  say(fixUp == FixUp::inPlace, "fix-up in place");
  say(fixUp == FixUp::again, "fix-up by another product");
  say(fixUp == FixUp::rescale, "fix-up by scaling of rows out of range");
  say(joinsWithLosses, "joined with losses");
  say(checksWithLogits, "checked with logits");
  say(hasTotals, "totals before losses");
  for (int sum = 0; sum < kRowSums; ++sum)
    say(rowSums[sum], rowSumName(sum));
  say(finishesRows, "rows finished with their losses");
  say(isUniformRankOne, "uniform part added to products");
  say(scalesRows || scalesInPlace, scalesInPlace ? "rows scaled in place" : "rows scaled apart");
  say(normalisesRows, "dw normalised");
  say(hasSecondPass, "second pass for dw and db");
  return text;
}

std::string Request::str() const {
  std::string text = std::to_string(rows) + "x" + std::to_string(hidden) + "x" + std::to_string(classes) +
                     " " + typeName() + ", labels " + elementName(label) + ", " + reductionName(reduction);
  if (pass == CallPass::backward) text += ", backward";
  if (dHidden) text += std::string(", dx ") + elementName(*dHidden);
  if (dWeight) text += std::string(", dw ") + elementName(*dWeight);
  if (dBias) text += std::string(", db ") + elementName(*dBias);
  if (isShard())
    text += ", classes from " + std::to_string(shard.first) + " of " + std::to_string(shard.all) + " of " +
            std::to_string(shard.ranks) + " ranks";
  return text + terms.logitStr() + terms.rowStr() + outputs.str() + (accumulate ? ",accumulate" : "");
}

} // namespace tilewright::lce
