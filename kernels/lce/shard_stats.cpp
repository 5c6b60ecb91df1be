#include <limits>
#include <utility>

#include "kernels/lce/combine_gradients.h"
#include "kernels/lce/shard_kernels.h"

namespace tilewright::lce {

ShardFacts shardFacts(const PerRowSum<bool> &sums, bool best) {
  ShardFacts facts;
  facts.places.fill(-1);
  const auto add = [&](ShardFact fact, bool isTold = true) {
    if (isTold) facts.places[static_cast<int>(fact)] = facts.count++;
  };
  const auto has = [&](RowSum sum) { return sums[static_cast<int>(sum)]; };
  add(ShardFact::shift), add(ShardFact::sum), add(ShardFact::target);
  add(ShardFact::moments, has(RowSum::moments));
  add(ShardFact::secondMoments, has(RowSum::secondMoments));
  add(ShardFact::weighedLogits, has(RowSum::weighedLogits));
  add(ShardFact::squares, has(RowSum::squares));
  for (const ShardFact fact : {ShardFact::top, ShardFact::bestHigh, ShardFact::bestLow})
    add(fact, best);
  return facts;
}

Kernel shardLabels() {
  return defineKernel("lce_shard_labels", "", [](KernelBuilder &k) {
    constexpr int64_t kLabels = 256;
    const View label = k.input("label", ElementType::i32, 1);
    const Index first = k.index("first"), count = k.index("classes");
    const Tile share = k.scalar("share");
    const auto output = [&](const char *name) { return k.output(name, ElementType::i32, 1); };
    const View own = output("own"), owned = output("owned"), shift = output("shift");

    const Range rows = k.blockRows(label.dim(0), kLabels);
    const Tile classes = k.toTile(count, ElementType::i32), y = label[rows];
    const Tile mine = y - k.toTile(first, ElementType::i32);
    const Tile isLabel = y >= 0, isOwn = isLabel & (mine >= 0) & (mine < classes);
    const Tile another = min(cast(share * cast(y, ElementType::f32), ElementType::i32), classes - 1);

    k.store(own, rows, select(isOwn, mine, select(isLabel, classes, -1)));
    k.store(owned, rows, select(isOwn, mine, -1));
    k.store(shift, rows, select(isOwn, mine, select(isLabel, another, -1)));
  });
}

namespace {

constexpr int64_t kRows = 4;
constexpr int kWarps = 4;

constexpr double kNoClass = std::numeric_limits<int32_t>::max();

/// x / kBestRadix, rounded down: rounding x to fp32 may have lifted it to the next multiple.
Tile quotientOfBest(const Tile &x) {
  const Tile guess = cast(1.0 / kBestRadix * cast(x, ElementType::f32), ElementType::i32);
  return guess - cast(guess * kBestRadix > x, ElementType::i32);
}

std::string str(const ShardStatsSpec &spec) {
  std::string text = spec.hasTotals ? "totals" : "sums";
  for (int s = 0; s < kRowSums; ++s)
    if (spec.sums[s]) text += std::string(",") + rowSumName(static_cast<RowSum>(s));
  return text + (spec.best ? ",best" : "");
}

} // namespace

Kernel shardStats(const ShardStatsSpec &spec) {
  return defineKernel("lce_shard_stats", str(spec), [spec](KernelBuilder &k) {
    const ElementType f32 = ElementType::f32, i32 = ElementType::i32;
    const View sums = spec.hasTotals ? k.input("total", f32, 1) : k.input("sums", f32, 2);
    const View target = k.input("target", f32, 1), shift = k.input("shift", f32, 1);
    const View owned = k.input("owned", i32, 1);
    View tops, best;
    if (spec.best) tops = k.input("tops", f32, 2), best = k.input("best", i32, 2);
    PerRowSum<View> rowSums;
    for (int s = 0; s < kRowSums; ++s)
      if (spec.sums[s]) rowSums[s] = k.input(rowSumName(static_cast<RowSum>(s)), f32, 2);
    const Index firstClass = k.index("first"), stride = k.index("stride");
    const View stats = k.output("stats", f32, 1);
    const bool mends = spec.sums[static_cast<int>(RowSum::stored)];
    const View factor = mends ? k.output("mend", f32, 1) : View();

    const Range rows = k.blockRows(owned.dim(0), kRows);
    const ShardFacts facts = shardFacts(spec.sums, spec.best);
    const Tile isRow = inside(k, rows, owned.dim(0)), position = rows.positions();
    const auto tell = [&](ShardFact fact, const Tile &value) {
      const Tile begin = k.toTile(stride * k.constant(facts.place(fact)), i32);
      k.scatter(stats, select(isRow, begin + position, -1), value);
    };

    const Tile others = 1 / kUnitOfE * (spec.hasTotals ? sums[rows] : sumOfBlocks(k, sums, rows));
    PerRowSum<Tile> found;
    for (int s = 0; s < kRowSums; ++s)
      if (spec.sums[s]) found[s] = undoesUnit(static_cast<RowSum>(s)) * sumOfBlocks(k, rowSums[s], rows);
    tell(ShardFact::shift, shift[rows]);
    tell(ShardFact::sum, others);
    tell(ShardFact::target, select(owned[rows] >= 0, target[rows], 0));
    constexpr std::pair<ShardFact, RowSum> kSums[] = {{ShardFact::moments, RowSum::moments},
                                                      {ShardFact::secondMoments, RowSum::secondMoments},
                                                      {ShardFact::weighedLogits, RowSum::weighedLogits},
                                                      {ShardFact::squares, RowSum::squares}};
    for (const auto &[fact, sum] : kSums)
      if (facts.has(fact)) tell(fact, found[static_cast<int>(sum)]);
    if (mends) k.store(factor, rows, mend(found, others));
    if (!spec.best) return;
    const Range blocks = k.whole(tops.dim(1));
    const Tile top = max(tops.at(rows, blocks), Axis::columns);
    const Tile own =
        min(select(tops.at(rows, blocks) == top, best.at(rows, blocks), kNoClass), Axis::columns);
    const Tile number = own + k.toTile(firstClass, i32), high = quotientOfBest(number);
    tell(ShardFact::top, top);
    tell(ShardFact::bestHigh, cast(high, f32)); // both are numbers that fp32 holds exactly
    tell(ShardFact::bestLow, cast(number - high * kBestRadix, f32));
  });
}

CompileOptions shardStatsOptions() {
  CompileOptions options;
  options.schedule.warps = kWarps;
  return options;
}

} // namespace tilewright::lce
