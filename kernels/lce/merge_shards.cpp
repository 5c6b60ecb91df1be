#include <limits>

#include "kernels/lce/combine_rows.h"
#include "kernels/lce/shard_kernels.h"

namespace tilewright::lce {
namespace {

// As `combine`: rows of X are scaled by small programs; otherwise a thread has a row.
constexpr int64_t kScaledRows = 4, kRows = 64;
constexpr int kScalingWarps = 4, kWarps = 2;

/// Of a shift from the row's; exp of it is 0, and the square finite.
constexpr double kLeastDistance = -1e4;
constexpr double kNoClass = std::numeric_limits<int32_t>::max();

bool scalesRows(const CombineSpec &spec) { return spec.gradients && spec.gradients->scalesRows; }
int64_t rowsOf(const CombineSpec &spec) { return scalesRows(spec) ? kScaledRows : kRows; }

std::string str(const CombineSpec &spec) { return sumsStr(spec) + spec.terms.rowStr() + spec.outputs.str(); }

/// The parameters, in their order.
struct Parameters : RowParameters {
  View gathered, shift, owned, mend;
  Index ranks, rank, stride;

  Parameters(KernelBuilder &k, const CombineSpec &spec, const RowTerms &terms) {
    const ElementType f32 = ElementType::f32, i32 = ElementType::i32;
    gathered = k.input("gathered", f32, 1);
    ranks = k.index("ranks"), rank = k.index("rank"), stride = k.index("stride");
    shift = k.input("shift", f32, 1), owned = k.input("owned", i32, 1);
    row = k.input("row", i32, 1), label = k.input("label", i32, 1);
    if (spec.sums[static_cast<int>(RowSum::stored)]) mend = k.input("mend", f32, 1);
    if (spec.terms.margin && spec.gradients) rowNorm = k.input("row_norm", f32, 1);
    terms.declare(k);
    declareResults(k, spec);
  }
};

/// What all ranks told of a block of rows.
class Told {
public:
  Told(KernelBuilder &k, const CombineSpec &spec, const Parameters &p, const Range &rows)
      : k_(k), p_(p), rows_(rows), facts_(shardFacts(spec.sums, spec.outputs.best)) {}

  bool has(ShardFact fact) const { return facts_.has(fact); }
  Tile of(const Index &rank, ShardFact fact) const {
    const Index place = (rank * facts_.count + facts_.place(fact)) * p_.stride + rows_.begin;
    return p_.gathered[k_.range(Axis::rows, place, rows_.extent)];
  }
  Tile bestOf(const Index &rank) const {
    const auto number = [&](ShardFact fact) { return cast(of(rank, fact), ElementType::i32); };
    return number(ShardFact::bestHigh) * kBestRadix + number(ShardFact::bestLow);
  }
  /// One rank after the other.
  template <typename Body> std::vector<Tile> forRanks(const std::vector<Tile> &carried, Body body) const {
    return k_.forRange(k_.constant(0), p_.ranks, 1, carried, body);
  }
  /// A number for each row.
  Tile all(double value) const { return cast(rows_.positions(), ElementType::f32) * 0.0 + value; }
  Tile allIntegers(int64_t value) const { return rows_.positions() * 0 + static_cast<double>(value); }

private:
  KernelBuilder &k_;
  const Parameters &p_;
  const Range rows_;
  const ShardFacts facts_;
};

/// Of all ranks' classes.
struct Merged {
  Tile shift, target, top; ///< the largest of the ranks' shifts
  Tile others;             ///< Σ E without the label's
  Tile argmax;
  PerRowSum<Tile> sums;
};

Merged largest(const Told &told) {
  const bool best = told.has(ShardFact::top);
  std::vector<Tile> none = {told.all(-std::numeric_limits<float>::max()), told.all(0)};
  if (best) none.push_back(told.all(-std::numeric_limits<double>::infinity()));
  const std::vector<Tile> found = told.forRanks(none, [&](Index rank, const std::vector<Tile> &so) {
    std::vector<Tile> next = {max(so[0], told.of(rank, ShardFact::shift)),
                              so[1] + told.of(rank, ShardFact::target)};
    if (best) next.push_back(max(so[2], told.of(rank, ShardFact::top)));
    return next;
  });
  Merged merged;
  merged.shift = found[0], merged.target = found[1];
  if (best) merged.top = found[2];
  return merged;
}

/// What a rank's sums are from the row's shift, which lies `distance` from its own.
class FromShift {
public:
  FromShift(const Told &told, const Index &rank, const Tile &shift)
      : told_(told), rank_(rank), distance(atLeast(told.of(rank, ShardFact::shift) - shift)),
        scale(exp(distance)), sum(told.of(rank, ShardFact::sum)) {}

  Tile of(RowSum kind) const {
    switch (kind) {
    case RowSum::moments:
      return scale * (told_.of(rank_, ShardFact::moments) + distance * sum);
    case RowSum::secondMoments:
      return scale * (told_.of(rank_, ShardFact::secondMoments) +
                      2.0 * distance * told_.of(rank_, ShardFact::moments) + distance * distance * sum);
    case RowSum::weighedLogits:
      return told_.of(rank_, ShardFact::weighedLogits);
    default:
      return told_.of(rank_, ShardFact::squares);
    }
  }
  static Tile atLeast(const Tile &distance) { return max(distance, distance * 0.0 + kLeastDistance); }

private:
  const Told &told_;
  const Index rank_;

public:
  const Tile distance, scale, sum;
};

void addSums(const CombineSpec &spec, const Told &told, Merged &merged) {
  std::vector<RowSum> kinds;
  for (const RowSum kind : {RowSum::moments, RowSum::secondMoments, RowSum::weighedLogits, RowSum::squares})
    if (spec.sums[static_cast<int>(kind)]) kinds.push_back(kind);
  std::vector<Tile> none(1 + kinds.size(), told.all(0));
  if (merged.top.valid()) none.push_back(told.allIntegers(static_cast<int64_t>(kNoClass)));
  const std::vector<Tile> found = told.forRanks(none, [&](Index rank, const std::vector<Tile> &so) {
    const FromShift from(told, rank, merged.shift);
    std::vector<Tile> next = {so[0] + from.scale * from.sum};
    for (const RowSum kind : kinds)
      next.push_back(so[next.size()] + from.of(kind));
    if (merged.top.valid()) {
      const Tile isBest = told.of(rank, ShardFact::top) == merged.top;
      next.push_back(min(so.back(), select(isBest, told.bestOf(rank), kNoClass)));
    }
    return next;
  });
  merged.others = found[0];
  for (std::size_t i = 0; i < kinds.size(); ++i)
    merged.sums[static_cast<int>(kinds[i])] = found[1 + i];
  if (merged.top.valid()) merged.argmax = found.back();
}

RowFacts factsOf(KernelBuilder &k, const CombineSpec &spec, const Parameters &p, const Range &rows,
                 const Merged &merged) {
  RowFacts row = p.begin(k, rows);
  row.shift = merged.shift;
  row.distance = merged.target - row.shift;
  row.sums = merged.sums;
  p.complete(spec, rows, merged.others, row);
  return row;
}

OwnClasses ownClasses(KernelBuilder &k, const Parameters &p, const Range &rows, const Told &told,
                      const Merged &merged) {
  OwnClasses own;
  own.isLabel = p.owned[rows] >= 0;
  own.isFirst = k.toTile(p.rank, ElementType::i32) == 0;
  own.distance = FromShift::atLeast(p.shift[rows] - merged.shift);
  own.scale = exp(own.distance);
  own.others = told.of(p.rank, ShardFact::sum);
  if (p.mend.valid()) own.mend = p.mend[rows];
  return own;
}

} // namespace

Kernel mergeShards(const CombineSpec &spec) {
  return defineKernel("lce_merge_shards", str(spec), [spec](KernelBuilder &k) {
    const RowTerms terms(spec.terms, spec.gradients.has_value());
    const Parameters p(k, spec, terms);

    const Range rows = k.blockRows(p.row.dim(0), rowsOf(spec));
    const Told told(k, spec, p, rows);
    Merged merged = largest(told);
    addSums(spec, told, merged);
    RowFacts row = factsOf(k, spec, p, rows, merged);
    const RowTotals totals = terms.totals(row);

    p.storeLoss(spec, row, totals.loss);
    if (spec.outputs.best) p.storeBest(spec, row, merged.top, merged.argmax);
    if (!spec.gradients) return;
    const OwnClasses own = ownClasses(k, p, rows, told, merged);
    storeGradients(k, spec, p, rows, row, totals, {merged.others, p.unit(rows)}, &own);
  });
}

CompileOptions mergeOptions(const CombineSpec &spec) {
  CompileOptions options;
  options.schedule.warps = scalesRows(spec) ? kScalingWarps : kWarps;
  return options;
}

} // namespace tilewright::lce
