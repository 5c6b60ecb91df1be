#include <limits>

#include "kernels/lce/forward_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

namespace {

// A program waits for its rows' sums before anything else is known, so many small programs wait side by side:
// 4096 rows of 4096 numbers take an H200 33 µs, with eight rows a program 45 µs, with eight warps 48 µs.
// Where sums are known, a thread has a row.
constexpr int64_t kRows = 4, kRowsWithTotals = 64;
constexpr int kWarps = 4, kWarpsWithTotals = 2;

std::string str(const CombineSpec &spec) {
  std::string text = "loss";
  if (spec.gradients) {
    constexpr const char *fixUps[] = {"", ",in place", ",again", ",rescale"};
    text = std::string(elementName(spec.gradients->element)) +
           ",e=" + elementName(spec.gradients->exponentials) + "," + spec.gradients->upstream.str() +
           fixUps[static_cast<int>(spec.gradients->fixUp)];
    if (!spec.gradients->scalesRows) text += ",no xs";
    if (spec.gradients->inPlace) text += ",xs in place";
    if (!spec.terms.logitsAreProducts()) text += ",rates";
    if (spec.terms.margin) text += ",margin";
  }
  for (int s = 0; s < kRowSums; ++s)
    if (spec.sums[s]) text += std::string(",") + rowSumName(static_cast<RowSum>(s));
  if (spec.hasTotals) text += ",totals";
  return text + spec.terms.rowStr() + spec.outputs.str();
}

/// The parameters, in their order.
struct Parameters {
  View sums, target, shift, row, label, tops, best, rowNorm;
  PerRowSum<View> rowSums;
  View rowLoss, lse, entropy, argmax, correct, top, norm;
  UpstreamParameters upstream;
  View x, rate, targetRate, scale, oneHot, scaled, factor, moment, uniform, self;

  Parameters(KernelBuilder &k, const CombineSpec &spec, const RowTerms &terms) {
    const ElementType f32 = ElementType::f32, i32 = ElementType::i32;
    sums = spec.hasTotals ? k.input("total", f32, 1) : k.input("sums", f32, 2);
    target = k.input("target", f32, 1);
    shift = k.input("shift", f32, 1), row = k.input("row", i32, 1), label = k.input("label", i32, 1);
    if (spec.outputs.best) tops = k.input("tops", f32, 2), best = k.input("best", i32, 2);
    for (int s = 0; s < kRowSums; ++s)
      if (spec.sums[s]) rowSums[s] = k.input(rowSumName(static_cast<RowSum>(s)), f32, 2);
    if (spec.terms.margin && spec.gradients) rowNorm = k.input("row_norm", f32, 1);
    terms.declare(k);
    rowLoss = k.output("row_loss", f32, 1), lse = k.output("lse", f32, 1);
    if (spec.outputs.entropy) entropy = k.output("entropy", f32, 1);
    if (spec.outputs.best) argmax = k.output("argmax", i32, 1), correct = k.output("correct", i32, 1);
    if (spec.outputs.monitored) top = k.output("top", f32, 1), norm = k.output("norm", f32, 1);
    if (spec.gradients) declareGradients(k, spec);
  }

private:
  void declareGradients(KernelBuilder &k, const CombineSpec &spec) {
    const ElementType f32 = ElementType::f32;
    upstream = declareUpstream(k, spec.gradients->upstream);
    if (spec.gradients->scalesRows && !spec.gradients->inPlace) x = k.input("xc", spec.gradients->element, 2);
    if (!spec.terms.logitsAreProducts())
      rate = k.input("rate", f32, 1), targetRate = k.input("target_rate", f32, 1);
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
};

/// Σ over a row's blocks.
Tile sumOfBlocks(KernelBuilder &k, const View &sums, const Range &rows) {
  return sum(sums.at(rows, k.whole(sums.dim(1))), Axis::columns);
}

/// What undoes the unit of the numbers that it adds up.
double undoesUnit(RowSum sum) {
  return sum == RowSum::weighedLogits || sum == RowSum::squares ? 1 : 1 / kUnitOfE;
}

/// What follows from the sums. With a target shift, the distance is 0.
RowFacts factsOf(KernelBuilder &k, const CombineSpec &spec, const Parameters &p, const Range &rows,
                 const Tile &others) {
  RowFacts row;
  row.k = &k;
  row.number = rowNumbers(k, p.row, rows);
  row.label = p.label[rows];
  row.shift = p.shift[rows];
  row.distance = p.target[rows] - row.shift; // NaN for an infinite shift
  for (int s = 0; s < kRowSums; ++s)
    if (spec.sums[s]) row.sums[s] = undoesUnit(static_cast<RowSum>(s)) * sumOfBlocks(k, p.rowSums[s], rows);

  addProbabilities(row, others);
  if (p.rowNorm.valid()) row.rowNorm = p.rowNorm[rows];
  if (spec.gradients) row.g = rowGradient(k, spec.gradients->upstream, p.upstream, row.number);
  return row;
}

void storeOutputs(KernelBuilder &k, const CombineSpec &spec, const Parameters &p, const Range &rows,
                  const RowFacts &row) {
  if (spec.outputs.entropy) k.scatter(p.entropy, row.number, row.entropy);
  if (!spec.outputs.best) return;
  const Range tiles = k.whole(p.tops.dim(1));
  const Tile top = max(p.tops.at(rows, tiles), Axis::columns);
  const Tile argmax =
      min(select(p.tops.at(rows, tiles) == top, p.best.at(rows, tiles), std::numeric_limits<int32_t>::max()),
          Axis::columns);
  k.scatter(p.argmax, row.number, argmax);
  k.scatter(p.correct, row.number, select(argmax == row.label, integer(k, 1), 0));
  if (!spec.outputs.monitored) return;
  k.scatter(p.top, row.number, top);
  k.scatter(p.norm, row.number, sqrt(row.sums[static_cast<int>(RowSum::squares)]));
}

/// Rounding E moved a row's mass from one number to another, which a factor of the row undoes: then the
/// weights of W's rows in dX sum to 0 as they should, so that what W's rows have in common cancels.
Tile mend(const CombineSpec &spec, const RowFacts &row, const Tile &others) {
  const Tile stored = row.sums[static_cast<int>(RowSum::stored)];
  const Tile exact =
      spec.sums[static_cast<int>(RowSum::exact)] ? row.sums[static_cast<int>(RowSum::exact)] : others;
  return select(stored > 0, exact / stored, 1.0);
}

/// The unit of a row of E in f16: a class's part is at most 2^12 of it where it is the row's whole mass
/// beside the target, and a mean class's part 2^6 of it where smoothing makes that larger. Then the smallest
/// of f16's full precision is 2^-26 of the mass, and a logit's distance and a class's weight find room above.
/// 0 where the row has next to nothing, or is none.
Tile unitOf(const RowFacts &row, const RowTotals &totals, const Tile &rate) {
  Tile ofMass = abs(factorOfP(totals));
  if (totals.moment.valid()) ofMass = ofMass + 16.0 * abs(totals.moment);
  Tile unit = 0x1p-12 * ofMass * row.other;
  if (totals.uniform.valid()) unit = unit + 0x1p-6 * abs(totals.uniform);
  if (rate.valid()) unit = unit * abs(rate);
  return select((row.number >= 0) & (unit > 0x1p-110), unit, 0);
}

void storeGradients(KernelBuilder &k, const CombineSpec &spec, const Parameters &p, const Range &rows,
                    const RowFacts &row, const RowTotals &totals, const Tile &others) {
  const bool rated = p.rate.valid();
  const Tile rate = rated ? p.rate[rows] : Tile();
  Tile perE = times(1 / kUnitOfE * row.v, rate);
  if (spec.sums[static_cast<int>(RowSum::stored)]) perE = perE * mend(spec, row, others);
  const Tile factor = factorOfP(totals) * perE;
  Tile unit, perUnit; // 1
  if (spec.gradients->exponentials == ElementType::f16) {
    unit = unitOf(row, totals, rate);
    perUnit = select(unit > 0, 1.0 / unit, 0);
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
  if (p.self.valid()) k.store(p.self, rows, totals.self);

  const Tile scale = unit.valid() ? unit : p.factor.valid() ? number(k, 1) : factor;
  k.store(p.scale, rows, scale);
  k.store(p.oneHot, rows, target);
  if (!p.x.valid()) return;
  const Range hidden = k.whole(p.x.dim(1));
  const Tile x = p.x.at(rows, hidden);
  k.store(p.scaled, rows, hidden, p.factor.valid() ? x : scale * x);
}

} // namespace

Kernel combine(const CombineSpec &spec) {
  return defineKernel("lce_combine", str(spec), [spec](KernelBuilder &k) {
    const RowTerms terms(spec.terms, spec.gradients.has_value());
    const Parameters p(k, spec, terms);

    const Range rows = k.blockRows(p.row.dim(0), spec.hasTotals ? kRowsWithTotals : kRows);
    const Tile others = 1 / kUnitOfE * (spec.hasTotals ? p.sums[rows] : sumOfBlocks(k, p.sums, rows));
    RowFacts row = factsOf(k, spec, p, rows, others);
    const RowTotals totals = terms.totals(row);

    k.scatter(p.rowLoss, row.number, totals.loss);
    k.scatter(p.lse, row.number, row.lse);
    storeOutputs(k, spec, p, rows, row);
    if (spec.gradients) storeGradients(k, spec, p, rows, row, totals, others);
  });
}

CompileOptions combineOptions(bool hasTotals) {
  CompileOptions options;
  options.schedule.warps = hasTotals ? kWarpsWithTotals : kWarps;
  return options;
}

} // namespace tilewright::lce
