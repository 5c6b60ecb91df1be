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

/// 1 or 0: how often a loop runs that stands for a condition with results.
Index once(KernelBuilder &k, const Tile &isTrue) {
  return k.toIndex(select(isTrue, integer(k, 1), integer(k, 0)));
}

} // namespace

std::string FinishSpec::str() const { return (repairs ? "repaired " : "") + block.str(); }

Tile isComputed(KernelBuilder &k, const View &rowRange, const Range &blockRows) {
  const Tile first = rowRange[k.range(Axis::rows, k.constant(0), 1)];
  const Tile end = rowRange[k.range(Axis::rows, k.constant(1), 1)];
  const Tile begin = k.toTile(blockRows.begin, ElementType::i32);
  return (begin < end) & (first < begin + blockRows.extent);
}

RowFinish::RowFinish(KernelBuilder &k, const FinishSpec &spec, const View &sums) : spec_(spec), sums_(sums) {
  e_ = k.output("e", ElementType::bf16, 2);
  if (!spec.repairs) return;
  sums_ = k.input("sums", ElementType::f32, 2);
  tops_ = k.input("tops", ElementType::f32, 2);
  rowRange_ = k.input("retry_range", ElementType::i32, 1);
}

RowFinish::Row RowFinish::finish(KernelBuilder &k, const Range &row, const View &shift,
                                 const Tile &total) const {
  Row found{shift[row], total, total};
  Tile bound = kHeavy * total;
  if (spec_.repairs) {
    const int64_t rows = spec_.block.rows;
    const Tile isAsked = isComputed(k, rowRange_, k.range(Axis::rows, row.begin / rows * rows, rows));
    const auto repair = [&](const Index &, const std::vector<Tile> &) {
      const Row repaired = withOneShift(k, row, found.shift);
      return std::vector<Tile>{repaired.shift, repaired.total, repaired.stored};
    };
    const std::vector<Tile> rowOf =
        k.forRange(k.constant(0), once(k, isAsked), 1, {found.shift, total, total}, repair);
    found = {rowOf[0], rowOf[1], rowOf[2]};
    k.store(shift, row, found.shift);
    bound = select(isAsked, std::numeric_limits<double>::infinity(), bound);
  }
  found.stored = sumAsStored(k, row, bound, found.stored);
  return found;
}

/// E of a row becomes what it is with the largest shift of its blocks and `shift`.
RowFinish::Row RowFinish::withOneShift(KernelBuilder &k, const Range &row, const Tile &shift) const {
  constexpr double kUnit = kUnitOfE / kUnitOfBlocks;
  const Range blocks = k.whole(sums_.dim(1));
  const Tile top = max(max(tops_.at(row, blocks), Axis::columns), shift);
  const Tile total = sum(sums_.at(row, blocks) * exp(tops_.at(row, blocks) - top), Axis::columns);
  const int64_t columns = spec_.block.columns;
  const auto rescale = [&](const Index &begin, const std::vector<Tile> &sums) {
    const Range classes = k.range(Axis::columns, begin, columns);
    const Tile factor = kUnit * exp(tops_.at(row, k.range(Axis::columns, begin / columns, 1)) - top);
    const Tile stored = rounded(factor * e_.at(row, classes), ElementType::bf16);
    k.store(e_, row, classes, stored);
    return std::vector<Tile>{sums[0] + sum(stored, Axis::columns)};
  };
  const Tile stored = k.forRange(k.constant(0), e_.dim(1), columns, {0.0 * top}, rescale)[0];
  return {top, kUnit * total, stored};
}

/// `total`, where sums of more than `bound` become those of E as stored.
Tile RowFinish::sumAsStored(KernelBuilder &k, const Range &row, const Tile &bound, const Tile &total) const {
  const Range blocks = k.whole(sums_.dim(1));
  const Tile isHeavy = sums_.at(row, blocks) > bound;
  const auto addNext = [&](const Index &, const std::vector<Tile> &carried) {
    const Tile isLater = isHeavy & (blocks.positions() > carried[0]);
    const Tile next =
        min(select(isLater, blocks.positions(), std::numeric_limits<int32_t>::max()), Axis::columns);
    const Index block = k.toIndex(next);
    const Range classes = k.range(Axis::columns, block * spec_.block.columns, spec_.block.columns);
    const Tile before = sums_.at(row, k.range(Axis::columns, block, 1));
    return std::vector<Tile>{next, carried[1] + (sum(e_.at(row, classes), Axis::columns) - before)};
  };
  return k.forRange(k.constant(0), k.toIndex(count(k, isHeavy)), 1, {integer(k, -1), total}, addNext)[1];
}

} // namespace tilewright::lce
