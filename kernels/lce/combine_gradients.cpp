#include "kernels/lce/combine_gradients.h"

namespace tilewright::lce {

std::string gradientsStr(const CombineSpec &spec) {
  constexpr const char *fixUps[] = {"", ",in place", ",again", ",rescale"};
  std::string text = std::string(elementName(spec.gradients->element)) +
                     ",e=" + elementName(spec.gradients->exponentials) + "," +
                     spec.gradients->upstream.str() + fixUps[static_cast<int>(spec.gradients->fixUp)];
  if (!spec.gradients->scalesRows) text += ",no xs";
  if (spec.gradients->inPlace) text += ",xs in place";
  if (!spec.terms.logitsAreProducts()) text += ",rates";
  if (spec.terms.margin) text += ",margin";
  return text;
}

void GradientParameters::declare(KernelBuilder &k, const CombineSpec &spec) {
  const ElementType f32 = ElementType::f32;
  upstream = declareUpstream(k, spec.gradients->upstream);
  if (spec.gradients->scalesRows && !spec.gradients->inPlace) x = k.input("xc", spec.gradients->element, 2);
  if (!spec.terms.logitsAreProducts())
    rate = k.input("rate", f32, 1), targetRate = k.input("target_rate", f32, 1);
  if (spec.gradients->fixUp == FixUp::rescale)
    unitOfE = spec.finish ? k.output("unit_e", f32, 1) : k.input("unit_e", f32, 1);
  scale = k.output("scale", f32, 1), oneHot = k.output("one_hot", f32, 1);
  if (spec.gradients->scalesRows) scaled = k.output("xs", spec.gradients->exponentials, 2);
  if (spec.gradients->inPlace) x = scaled;
  if (spec.gradients->fixUp != FixUp::none) {
    factor = k.output("factor", f32, 1);
    if (spec.terms.gradEntropy) moment = k.output("moment", f32, 1);
  }
  if (spec.terms.labelSmoothing) uniform = k.output("uniform", f32, 1);
  if (spec.terms.margin) self = k.output("self", f32, 1);
}

Tile sumOfBlocks(KernelBuilder &k, const View &sums, const Range &rows) {
  return sum(sums.at(rows, k.whole(sums.dim(1))), Axis::columns);
}

double undoesUnit(RowSum sum) {
  return sum == RowSum::weighedLogits || sum == RowSum::squares ? 1 : 1 / kUnitOfE;
}

Tile mend(const PerRowSum<Tile> &sums, const Tile &others) {
  const Tile stored = sums[static_cast<int>(RowSum::stored)], exact = sums[static_cast<int>(RowSum::exact)];
  return select(stored > 0, (exact.valid() ? exact : others) / stored, 1.0);
}

namespace {

/// The unit of a row of E in f16: a class's part is at most 2^12 of it where it is the row's whole mass
/// beside the target, `other`, and a mean class's part 2^6 of it where smoothing makes that larger. Then the
/// smallest of f16's full precision is 2^-26 of the mass, and a logit's distance and a class's weight find
/// room above. 0 where the row has next to nothing, or is none.
Tile unitOf(const RowFacts &row, const RowTotals &totals, const Tile &other, const Tile &rate) {
  Tile ofMass = abs(factorOfP(totals));
  if (totals.moment.valid()) ofMass = ofMass + 16.0 * abs(totals.moment);
  Tile unit = 0x1p-12 * ofMass * other;
  if (totals.uniform.valid()) unit = unit + 0x1p-6 * abs(totals.uniform);
  if (rate.valid()) unit = unit * abs(rate);
  return select((row.number >= 0) & (unit > 0x1p-110), unit, 0);
}

} // namespace

void storeGradients(KernelBuilder &k, const CombineSpec &spec, const GradientParameters &p, const Range &rows,
                    const RowFacts &row, const RowTotals &totals, const RowsOfE &e, const OwnClasses *own) {
  const bool rated = p.rate.valid();
  const Tile rate = rated ? p.rate[rows] : Tile();
  const Tile v = own ? row.v * own->scale : row.v; // p_ij = v E_ij
  Tile perE = times(1 / kUnitOfE * v, rate);
  if (own && own->mend.valid()) perE = perE * own->mend;
  if (!own && row.sums[static_cast<int>(RowSum::stored)].valid()) perE = perE * mend(row.sums, e.others);
  Tile ofP = factorOfP(totals);
  if (own && totals.moment.valid()) ofP = ofP + totals.moment * own->distance;
  const Tile factor = ofP * perE;
  Tile unit, perUnit; // 1
  if (spec.gradients->exponentials == ElementType::f16) {
    unit = unitOf(row, totals, own ? v * own->others : row.other, rate);
    if (e.unit.valid()) unit = select((row.number >= 0) & (e.unit != 0.0), factor * e.unit, unit);
    perUnit = select(unit == 0.0, 0, 1.0 / unit);
  }
  if (p.factor.valid()) k.store(p.factor, rows, times(factor, perUnit));
  if (p.moment.valid()) k.store(p.moment, rows, times(totals.moment * perE, perUnit));

  const Tile targetRate = rated ? p.targetRate[rows] : Tile();
  Tile target = times(targetGradient(row, totals), targetRate);
  if (p.uniform.valid()) {
    const Tile uniform = select(row.number >= 0, times(totals.uniform, rate), 0);
    k.store(p.uniform, rows, times(uniform, perUnit));
    // Only a second product takes the uniform part of all classes but the target, as it takes E.
    if (spec.gradients->fixUp == FixUp::again)
      addTo(target, -times(times(totals.uniform, row.classWeight), targetRate));
  }
  if (p.self.valid()) k.store(p.self, rows, own ? select(own->isFirst, totals.self, 0) : totals.self);

  const Tile scale = unit.valid() ? unit : p.factor.valid() ? number(k, 1) : factor;
  k.store(p.scale, rows, scale);
  k.store(p.oneHot, rows, own ? select(own->isLabel, target, 0) : target);
  if (!p.x.valid()) return;
  const Range hidden = k.whole(p.x.dim(1));
  const Tile x = p.x.at(rows, hidden);
  k.store(p.scaled, rows, hidden, p.factor.valid() ? x : scale * x);
}

} // namespace tilewright::lce
