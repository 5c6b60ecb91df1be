#include <limits>
#include <optional>

#include "kernels/lce/combine_rows.h"
#include "kernels/lce/finish_row.h"
#include "kernels/lce/gradient_kernels.h"

namespace tilewright::lce {

namespace {

// A program waits for its rows' sums before anything else is known, so many small programs wait side by side;
// and each row of a program has a copy of its code, which is long and runs once. Where sums were joined, a
// thread has a row.
constexpr int64_t kRowsOfJoinedSums = 64;

std::string str(const CombineSpec &spec) {
  std::string text = sumsStr(spec);
  if (spec.hasTotals) text += ",totals";
  if (spec.finish) text += ",finish" + spec.finish->str();
  if (spec.ranksLabels) text += ",ranks";
  if (spec.rowsAtOnce != 1) text += "," + std::to_string(spec.rowsAtOnce) + " rows";
  return text + spec.terms.rowStr() + spec.outputs.str();
}

/// The parameters, in their order.
struct Parameters : RowParameters {
  View sums, target, shift, tops, best;
  std::optional<RowFinish> finish;
  PerRowSum<View> rowSums;
  Index jobs;
  std::optional<LabelRanks> ranks;

  Parameters(KernelBuilder &k, const CombineSpec &spec, const RowTerms &terms) {
    const ElementType f32 = ElementType::f32, i32 = ElementType::i32;
    sums = spec.hasTotals ? k.input("total", f32, 1) : k.input("sums", f32, 2);
    if (spec.finish) finish.emplace(k, *spec.finish, spec.hasTotals ? View() : sums);
    target = k.input("target", f32, 1);
    const bool storesShifts = spec.finish && spec.finish->storesShifts();
    shift = storesShifts ? k.output("shift", f32, 1) : k.input("shift", f32, 1);
    row = k.input("row", i32, 1), label = k.input("label", i32, 1);
    if (spec.outputs.best) tops = k.input("tops", f32, 2), best = k.input("best", i32, 2);
    for (int s = 0; s < kRowSums; ++s)
      if (spec.sums[s]) rowSums[s] = k.input(rowSumName(static_cast<RowSum>(s)), f32, 2);
    if (spec.terms.margin && spec.gradients) rowNorm = k.input("row_norm", f32, 1);
    terms.declare(k);
    declareResults(k, spec);
    if (spec.ranksLabels) jobs = k.index("jobs"), ranks.emplace(k);
  }
};

/// A row's shift and sums, of which E's is in the unit of E.
RowFinish::Row begin(KernelBuilder &k, const CombineSpec &spec, const Parameters &p, const Range &rows) {
  const Tile total = spec.hasTotals ? p.sums[rows] : sumOfBlocks(k, p.sums, rows);
  return p.finish ? p.finish->finish(k, rows, p.shift, total) : RowFinish::Row{p.shift[rows], total, {}, {}};
}

/// What follows from the sums. With a target shift, the distance is 0.
RowFacts factsOf(KernelBuilder &k, const CombineSpec &spec, const Parameters &p, const Range &rows,
                 const RowFinish::Row &begun) {
  constexpr double kPerUnit = 1 / kUnitOfE;
  RowFacts row = p.begin(k, rows);
  row.shift = begun.shift;
  row.distance = p.target[rows] - row.shift; // NaN for an infinite shift
  for (int s = 0; s < kRowSums; ++s)
    if (spec.sums[s]) row.sums[s] = undoesUnit(static_cast<RowSum>(s)) * sumOfBlocks(k, p.rowSums[s], rows);
  if (begun.stored.valid()) row.sums[static_cast<int>(RowSum::stored)] = kPerUnit * begun.stored;
  p.complete(spec, rows, kPerUnit * begun.total, row);
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

void combineRows(KernelBuilder &k, const CombineSpec &spec, const Parameters &p, const RowTerms &terms,
                 const Range &rows) {
  const RowFinish::Row begun = begin(k, spec, p, rows);
  RowFacts row = factsOf(k, spec, p, rows, begun);
  const RowTotals totals = terms.totals(row);

  p.storeLoss(spec, row, totals.loss);
  if (spec.outputs.best) storeBest(k, spec, p, rows, row);
  if (!spec.gradients) return;
  if (begun.unit.valid()) k.store(p.unitOfE, rows, begun.unit);
  const Tile unit = begun.unit.valid() ? begun.unit : p.unit(rows);
  storeGradients(k, spec, p, rows, row, totals, {1 / kUnitOfE * begun.total, unit});
}

} // namespace

Kernel combine(const CombineSpec &spec) {
  return defineKernel("lce_combine", str(spec), [spec](KernelBuilder &k) {
    const RowTerms terms(spec.terms, spec.gradients.has_value());
    const Parameters p(k, spec, terms);

    const int64_t rowsAtOnce = spec.hasTotals && !spec.finish ? kRowsOfJoinedSums : spec.rowsAtOnce;
    if (!p.ranks) return combineRows(k, spec, p, terms, k.blockRows(p.row.dim(0), rowsAtOnce));
    const auto [rows, job] = k.block(p.row.dim(0), p.jobs, rowsAtOnce, 1);
    k.ifThen(job.begin == k.constant(0), [&, rows = rows] { combineRows(k, spec, p, terms, rows); });
    k.ifThen(job.begin != 0, [&, rows = rows] { p.ranks->store(k, p.label, rows); });
  });
}

// A warp adds up its sums without a barrier, and the fewer columns it has at once, the fewer registers it
// takes and the more rows are at work. An H200 takes 48 µs for 32768 rows of 576 numbers and 256 sums, with
// blocks of 512 columns 57 and of 1024 columns 79. Wide rows are the other way round: 22, 40, 9 and 6 µs for
// 4096×4096×128256, 8192×4096×32000, 2048×2048×50304 and 256×1024×32768, with two warps a row and as many
// columns for each 23, 40, 13 and 6, with four times as many 25, 47, 16 and 9 (ncu, caches kept, 2026-11-27).
CompileOptions combineOptions(TargetKind target, bool rowsAreShort) {
  CompileOptions options;
  if (target == TargetKind::cpu) return options;
  options.schedule.warps = 1;
  options.schedule.rowBlock = rowsAreShort ? 256 : 512;
  options.schedule.rowUnroll = rowsAreShort ? 1 : 2;
  return options;
}

} // namespace tilewright::lce
