#include <limits>
#include <optional>

#include "kernels/lce/combine_rows.h"
#include "kernels/lce/gradient_kernels.h"

namespace tilewright::lce {

namespace {

// A program waits for its rows' sums before anything else is known, so many small programs wait side by side;
// and each row of a program has a copy of its code, which is long and runs once. An H100 takes 6.5, 7.9
// and 25.3 µs for 256×1024×32768, 1024×2048×8192 and 4096×4096×32000; with four rows and four warps a
// program 13.2, 11.9 and 27.6 (ncu, caches kept, 2026-11-26). Where sums are known, a thread has a row.
constexpr int64_t kRowsWithTotals = 64;
constexpr int kWarps = 2;

std::string str(const CombineSpec &spec) {
  std::string text = sumsStr(spec);
  if (spec.hasTotals) text += ",totals";
  if (spec.ranksLabels) text += ",ranks";
  if (spec.rowsAtOnce != 1) text += "," + std::to_string(spec.rowsAtOnce) + " rows";
  return text + spec.terms.rowStr() + spec.outputs.str();
}

/// The parameters, in their order.
struct Parameters : RowParameters {
  View sums, target, shift, tops, best;
  PerRowSum<View> rowSums;
  std::optional<LabelRanks> ranks;

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
    declareResults(k, spec);
    if (spec.ranksLabels) ranks.emplace(k);
  }
};

/// What follows from the sums. With a target shift, the distance is 0.
RowFacts factsOf(KernelBuilder &k, const CombineSpec &spec, const Parameters &p, const Range &rows,
                 const Tile &others) {
  RowFacts row = p.begin(k, rows);
  row.shift = p.shift[rows];
  row.distance = p.target[rows] - row.shift; // NaN for an infinite shift
  for (int s = 0; s < kRowSums; ++s)
    if (spec.sums[s]) row.sums[s] = undoesUnit(static_cast<RowSum>(s)) * sumOfBlocks(k, p.rowSums[s], rows);
  p.complete(spec, rows, others, row);
  return row;
}

void storeBest(KernelBuilder &k, const CombineSpec &spec, const Parameters &p, const Range &rows,
               const RowFacts &row) {
  const Range tiles = k.whole(p.tops.dim(1));
  const Tile top = max(p.tops.at(rows, tiles), Axis::columns);
  const Tile argmax =
      min(select(p.tops.at(rows, tiles) == top, p.best.at(rows, tiles), std::numeric_limits<int32_t>::max()),
          Axis::columns);
  p.storeBest(spec, row, top, argmax);
}

} // namespace

Kernel combine(const CombineSpec &spec) {
  return defineKernel("lce_combine", str(spec), [spec](KernelBuilder &k) {
    const RowTerms terms(spec.terms, spec.gradients.has_value());
    const Parameters p(k, spec, terms);

    const Range rows = k.blockRows(p.row.dim(0), spec.hasTotals ? kRowsWithTotals : spec.rowsAtOnce);
    const Tile others = 1 / kUnitOfE * (spec.hasTotals ? p.sums[rows] : sumOfBlocks(k, p.sums, rows));
    RowFacts row = factsOf(k, spec, p, rows, others);
    const RowTotals totals = terms.totals(row);

    p.storeLoss(spec, row, totals.loss);
    if (spec.outputs.best) storeBest(k, spec, p, rows, row);
    if (spec.gradients) storeGradients(k, spec, p, rows, row, totals, others);
    if (p.ranks) p.ranks->store(k, p.label, rows);
  });
}

// One warp has all of a short row on its way at once, and adds up its sums without a barrier.
CompileOptions combineOptions(bool rowsAreShort) {
  CompileOptions options;
  options.schedule.warps = rowsAreShort ? 1 : kWarps;
  if (rowsAreShort) options.schedule.rowBlock = kShortRow, options.schedule.rowUnroll = 1;
  return options;
}

} // namespace tilewright::lce
