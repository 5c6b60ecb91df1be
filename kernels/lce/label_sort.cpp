#include "kernels/lce/label_sort.h"

#include <limits>
#include <string>

#include "compiler/base/integers.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {
namespace {

constexpr int64_t kStep = 128;      ///< rows of a block that one row is compared with at once
constexpr int64_t kMergedRows = 64; ///< of one program
constexpr int64_t kAtOnce = 4;      ///< blocks that a row is looked up in side by side, as loads take time
static_assert(kSortedBlock % kStep == 0 && kSortedBlock % kMergedRows == 0);
static_assert(kMergedBlocks % kAtOnce == 0, "a row would be looked up in blocks that are merged apart");

/// Rows that are looked up in a sorted block.
struct Search {
  Index block;
  Tile label;
  Tile found; ///< how many of the block's labels are less
};

/// All of them side by side, for each step of one waits for a load.
void countBelow(KernelBuilder &k, const View &labels, int64_t blockRows, std::vector<Search> &searches) {
  for (Search &search : searches)
    search.found = search.label * 0;
  for (int64_t step = blockRows; step > 0; step /= 2)
    for (Search &search : searches) {
      const Index begin = search.block * blockRows;
      const Tile rows = k.toTile(min(labels.dim(0) - begin, k.constant(blockRows)), ElementType::i32);
      const Tile next = search.found + static_cast<double>(step);
      const Tile last = labels.gather(k.toTile(begin - 1, ElementType::i32) + next);
      search.found = select((next <= rows) & (last < search.label), next, search.found);
    }
}

/// Of rows in a group of blocks that become one.
struct Places {
  Tile place; ///< among the group's rows
  Tile below; ///< rows of lesser labels
  Tile upTo;  ///< and of the same label; both of a last merge
};

/// What the blocks from `first` to `end` say of rows `at` of block `own`.
Places placesOf(KernelBuilder &k, const View &labels, const MergeSpec &spec, const Range &at,
                const Index &own, const Index &first, const Index &end) {
  const auto integer = [&](const Index &index) { return k.toTile(index, ElementType::i32); };
  const Tile label = labels[at], zero = label * 0;
  const auto body = [&](Index begin, std::vector<Tile> sums) {
    std::vector<Search> searches;
    for (int64_t i = 0; i < kAtOnce; ++i) {
      // Rows of the same label come first where they are of an earlier block.
      const Tile isBefore = cast(integer(begin + i) < integer(own), ElementType::i32);
      searches.push_back({begin + i, spec.isLast ? label : label + isBefore, {}});
      if (spec.isLast) searches.push_back({begin + i, label + 1, {}});
    }
    countBelow(k, labels, spec.blockRows, searches);
    for (std::size_t i = 0; i < searches.size(); i += spec.isLast ? 2 : 1) {
      const Tile number = integer(searches[i].block), below = searches[i].found;
      const Tile upTo = spec.isLast ? searches[i + 1].found : below;
      const Tile inOwn = at.positions() - integer(own * spec.blockRows);
      sums[0] = sums[0] + select(number == integer(own), inOwn, select(number < integer(own), upTo, below));
      if (spec.isLast) sums[1] = sums[1] + below, sums[2] = sums[2] + upTo;
    }
    return sums;
  };
  const std::vector<Tile> begun(spec.isLast ? 3 : 1, zero),
      sums = k.forRange(first, end, kAtOnce, begun, body);
  return spec.isLast ? Places{sums[0], sums[1], sums[2]} : Places{sums[0], {}, {}};
}

} // namespace

std::vector<int64_t> planMerges(int64_t rows) {
  std::vector<int64_t> merges = {kSortedBlock};
  while (ceilDiv(rows, merges.back()) > kMergedBlocks)
    merges.push_back(merges.back() * kMergedBlocks);
  return merges;
}

CompileOptions sortBlocksOptions(TargetKind target) {
  CompileOptions options;
  if (target != TargetKind::cpu) options.schedule.warps = 1;
  return options;
}

CompileOptions mergeBlocksOptions(TargetKind target) {
  CompileOptions options;
  if (target != TargetKind::cpu) options.schedule.warps = 2;
  return options;
}

Kernel sortBlocks() {
  return defineKernel("lce_sort_blocks", "", [](KernelBuilder &k) {
    const View label = k.input("label", ElementType::i32, 1);
    const View labels = k.output("labels", ElementType::i32, 1),
               numbers = k.output("rows", ElementType::i32, 1);

    const Range rows = k.blockRows(label.dim(0), kRowsPerProgram);
    const Index begin = rows.begin / kSortedBlock * kSortedBlock, own = rows.begin / kStep * kStep;
    const Index end = min(begin + kSortedBlock, label.dim(0));
    const Tile mine = label[rows];
    const auto othersAt = [&](const Index &i) { return k.range(Axis::columns, i, kStep); };
    const auto isLess = [&](const Range &others, const Tile &than) {
      constexpr double kLast = std::numeric_limits<int32_t>::max();
      return cast(select(inside(k, others, label.dim(0)), label[others], kLast) < than, ElementType::i32);
    };
    const auto countLess = [&](const Index &from, const Index &to, const Tile &than, const Tile &begun) {
      return k.forRange(from, to, kStep, {begun}, [&](Index i, const std::vector<Tile> &sums) {
        return std::vector<Tile>{sums[0] + isLess(othersAt(i), than)};
      })[0];
    };
    // Rows of the same label come first where they are earlier.
    const Tile isEarlier = cast(othersAt(own).positions() < rows.positions(), ElementType::i32);
    const Tile inOwn = isLess(othersAt(own), mine + isEarlier);
    const Tile before = countLess(own + kStep, end, mine, countLess(begin, own, mine + 1, inOwn));

    const Tile place = sum(before, Axis::columns) + k.toTile(begin, ElementType::i32);
    const Tile to = select(inside(k, rows, label.dim(0)), place, -1);
    k.scatter(labels, to, mine);
    k.scatter(numbers, to, rows.positions());
  });
}

Kernel mergeBlocks(const MergeSpec &spec) {
  const std::string specialisation = std::to_string(spec.blockRows) + (spec.isLast ? ",last" : "");
  return defineKernel("lce_merge_blocks", specialisation, [spec](KernelBuilder &k) {
    const auto input = [&](const char *name) { return k.input(name, ElementType::i32, 1); };
    const auto output = [&](const char *name) { return k.output(name, ElementType::i32, 1); };
    const View labels = input("labels"), numbers = input("rows");
    const View sortedLabels = spec.isLast ? View() : output("sorted_labels"), order = output("order");
    const View run = spec.isLast ? output("run") : View(), slot = spec.isLast ? output("slot") : View();

    const Range at = k.blockRows(labels.dim(0), kMergedRows);
    const Index own = at.begin / spec.blockRows, first = own / kMergedBlocks * kMergedBlocks;
    const Index blocks = (labels.dim(0) + (spec.blockRows - 1)) / spec.blockRows;
    const Places places = placesOf(k, labels, spec, at, own, first, min(first + kMergedBlocks, blocks));

    const Tile label = labels[at], isRow = inside(k, at, labels.dim(0));
    const Tile to = select(isRow, places.place + k.toTile(first * spec.blockRows, ElementType::i32), -1);
    k.scatter(order, to, numbers[at]);
    if (!spec.isLast) return k.scatter(sortedLabels, to, label);
    const Tile isHead = isRow & (label >= 0) & (places.place == places.below);
    k.scatter(run, to, select(isHead, places.upTo - places.below, 0));
    k.scatter(slot, select(isHead, label, -1), places.place);
  });
}

Kernel countLabels() {
  return defineKernel("lce_count_labels", "", [](KernelBuilder &k) {
    const View label = k.input("label", ElementType::i32, 1);
    const View order = k.output("order", ElementType::i32, 1), run = k.output("run", ElementType::i32, 1);
    const View slot = k.output("slot", ElementType::i32, 1);

    const Index zero = k.constant(0), rows = label.dim(0);
    const auto one = [&](const Index &position) { return k.range(Axis::rows, position, 1); };
    const Tile none = integer(k, 0);

    // A label's rows less one, and all rows without a label.
    const Tile unlabelled = k.forRange(zero, rows, 1, {none}, [&](Index i, const std::vector<Tile> &sums) {
      const Tile mine = label[one(i)];
      k.store(run, one(i), none);
      k.scatter(slot, mine, slot.gather(mine) + 1);
      return std::vector<Tile>{sums[0] + select(mine < 0, integer(k, 1), 0)};
    })[0];
    // Where a label's rows end.
    k.forRange(zero, slot.dim(0), 1, {unlabelled}, [&](Index y, const std::vector<Tile> &begins) {
      const Tile count = slot[one(y)] + 1, end = begins[0] + count;
      k.scatter(run, select(count > 0, begins[0], -1), count);
      k.store(slot, one(y), select(count > 0, end, -1));
      return std::vector<Tile>{end};
    });
    // From the last row to the first, each to the place before those that were put there: `slot` is in the
    // end where they begin.
    k.forRange(zero, rows, 1, {unlabelled}, [&](Index i, const std::vector<Tile> &ends) {
      const Index row = rows - 1 - i;
      const Tile mine = label[one(row)], place = select(mine < 0, ends[0], slot.gather(mine)) - 1;
      k.scatter(order, place, k.toTile(row, ElementType::i32));
      k.scatter(slot, mine, place);
      return std::vector<Tile>{select(mine < 0, place, ends[0])};
    });
  });
}

} // namespace tilewright::lce
