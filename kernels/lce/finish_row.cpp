#include "kernels/lce/finish_row.h"

#include <limits>
#include <string>
#include <vector>

#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {
namespace {

// The roundings of many small numbers even out, so blocks of less than this part of their row count with the
// sums of what they were before. Random logits have no block of more; a trained model's have five a row.
constexpr double kHeavy = 0x1p-6;
// Of a row of E: its reciprocal is finite.
constexpr double kLeastUnit = 0x1p-100;

/// 1 or 0: how often a loop runs that stands for a condition with results.
Index once(KernelBuilder &k, const Tile &isTrue) {
  return k.toIndex(select(isTrue, integer(k, 1), integer(k, 0)));
}

} // namespace

std::string FinishSpec::str() const {
  constexpr const char *texts[] = {"", "repaired ", "mended ", "joined "};
  return texts[static_cast<int>(ownShifts)] + (hasE ? block.str() : "sums");
}

JoinedBlocks::JoinedBlocks(const Tile &sums, const Tile &tops, const Tile &least)
    : shift(max(max(tops, Axis::columns), least)), total(sum(sums * exp(tops - shift), Axis::columns)) {}

JoinedRaised::JoinedRaised(const Tile &sums, const Tile &tops, const Tile &least) {
  constexpr double kPerUnit = kUnitOfE / kUnitOfRaised;
  const JoinedBlocks joined(sums, tops, least);
  shift = joined.shift, total = kPerUnit * joined.total;
  const Tile top = max(tops, Axis::columns), isOne = min(tops, Axis::columns) == top;
  const Tile ofRow = kPerUnit * exp(top - shift);
  unit = select(isOne & (ofRow > kLeastUnit), ofRow, 0);
}

Tile isComputed(KernelBuilder &k, const View &rowRange, const Range &blockRows) {
  const Tile first = rowRange[k.range(Axis::rows, k.constant(0), 1)];
  const Tile end = rowRange[k.range(Axis::rows, k.constant(1), 1)];
  const Tile begin = k.toTile(blockRows.begin, ElementType::i32);
  return (begin < end) & (first < begin + blockRows.extent);
}

RowFinish::RowFinish(KernelBuilder &k, const FinishSpec &spec, const View &sums) : spec_(spec), sums_(sums) {
  if (spec.hasE) e_ = k.output("e", ElementType::bf16, 2);
  if (spec.ownShifts == OwnShifts::none) return;
  if (!sums_.valid()) sums_ = k.input("sums", ElementType::f32, 2);
  tops_ = k.input("tops", ElementType::f32, 2);
  if (spec.ownShifts == OwnShifts::retried) rowRange_ = k.input("retry_range", ElementType::i32, 1);
}

/// Whether blocks of the row may have shifts of their own: a 1×1 truth value.
Tile RowFinish::hasOwnShifts(KernelBuilder &k, const Range &row, const Tile &total) const {
  if (spec_.ownShifts == OwnShifts::mended) return total > kLeastMended;
  const int64_t rows = spec_.block.rows;
  return isComputed(k, rowRange_, k.range(Axis::rows, row.begin / rows * rows, rows));
}

RowFinish::Row RowFinish::finish(KernelBuilder &k, const Range &row, const View &shift,
                                 const Tile &total) const {
  if (spec_.ownShifts == OwnShifts::raised) {
    const Range blocks = k.whole(sums_.dim(1));
    const JoinedRaised joined(sums_.at(row, blocks), tops_.at(row, blocks), shift[row]);
    k.store(shift, row, joined.shift);
    return {joined.shift, joined.total, {}, joined.unit};
  }
  Row found{shift[row], total, {}, {}};
  Tile stored = total, bound = kHeavy * total;
  if (spec_.ownShifts != OwnShifts::none) {
    const Tile isAsked = hasOwnShifts(k, row, total);
    const auto repair = [&](const Index &, const std::vector<Tile> &) {
      const Row repaired = withOneShift(k, row, found.shift);
      return std::vector<Tile>{repaired.shift, repaired.total, repaired.stored};
    };
    const std::vector<Tile> rowOf =
        k.forRange(k.constant(0), once(k, isAsked), 1, {found.shift, total, total}, repair);
    found = {rowOf[0], rowOf[1], {}, {}}, stored = rowOf[2];
    if (spec_.hasE) k.store(shift, row, found.shift);
    bound = select(isAsked, std::numeric_limits<double>::infinity(), bound);
  }
  if (spec_.hasE) found.stored = sumAsStored(k, row, bound, stored);
  return found;
}

/// E of a row becomes what it is with the largest shift of its blocks and `shift`.
RowFinish::Row RowFinish::withOneShift(KernelBuilder &k, const Range &row, const Tile &shift) const {
  const Range blocks = k.whole(sums_.dim(1));
  Tile sums = sums_.at(row, blocks), tops = tops_.at(row, blocks);
  if (spec_.ownShifts == OwnShifts::mended) {
    const Tile isMended = sums > kLeastMended;
    sums = select(isMended, 1 / kUnitOfMended * sums, sums), tops = select(isMended, tops, shift);
  }
  const JoinedBlocks joined(sums, tops, shift);
  if (!spec_.hasE) return {joined.shift, joined.total, joined.total, {}};
  const int64_t columns = spec_.block.columns;
  const auto rescale = [&](const Index &begin, const std::vector<Tile> &sums) {
    const Range classes = k.range(Axis::columns, begin, columns);
    const Tile factor = exp(tops_.at(row, k.range(Axis::columns, begin / columns, 1)) - joined.shift);
    const Tile stored = rounded(factor * e_.at(row, classes), ElementType::bf16);
    k.store(e_, row, classes, stored);
    return std::vector<Tile>{sums[0] + sum(stored, Axis::columns)};
  };
  const Tile stored = k.forRange(k.constant(0), e_.dim(1), columns, {number(k, 0)}, rescale)[0];
  return {joined.shift, joined.total, stored, {}};
}

/// `total`, where sums of more than `bound` become those of E as stored. Where many blocks have so much, as
/// of few classes any has, the whole row is summed up, for a warp reads it sooner than these blocks one after
/// the other.
Tile RowFinish::sumAsStored(KernelBuilder &k, const Range &row, const Tile &bound, const Tile &total) const {
  constexpr int64_t kManyOf = 16; // blocks
  const Range blocks = k.whole(sums_.dim(1));
  const Tile isHeavy = sums_.at(row, blocks) > bound;
  const auto countHeavy = [&](const Index &, const std::vector<Tile> &) {
    return std::vector<Tile>{count(k, isHeavy)};
  };
  const Tile isAnyHeavy = max(sums_.at(row, blocks), Axis::columns) > bound; // of random logits no block is
  const Tile heavy = k.forRange(k.constant(0), once(k, isAnyHeavy), 1, {integer(k, 0)}, countHeavy)[0];
  const Tile areMany = kManyOf * heavy > k.toTile(sums_.dim(1), ElementType::i32);
  const auto addNext = [&](const Index &, const std::vector<Tile> &carried) {
    const Tile isLater = isHeavy & (blocks.positions() > carried[0]);
    const Tile next =
        min(select(isLater, blocks.positions(), std::numeric_limits<int32_t>::max()), Axis::columns);
    const Index block = k.toIndex(next);
    const Range classes = k.range(Axis::columns, block * spec_.block.columns, spec_.block.columns);
    const Tile before = sums_.at(row, k.range(Axis::columns, block, 1));
    return std::vector<Tile>{next, carried[1] + (sum(e_.at(row, classes), Axis::columns) - before)};
  };
  const auto addAll = [&](const Index &, const std::vector<Tile> &) {
    return std::vector<Tile>{sum(e_.at(row, k.whole(e_.dim(1))), Axis::columns)};
  };
  const Tile all = k.forRange(k.constant(0), once(k, areMany), 1, {total}, addAll)[0];
  return k.forRange(k.constant(0), k.toIndex(select(areMany, 0, heavy)), 1, {integer(k, -1), all},
                    addNext)[1];
}

} // namespace tilewright::lce
