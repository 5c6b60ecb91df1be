#include "kernels/loss/dsl_helpers.h"
#include "kernels/loss/kernels.h"
#include "runtime/call_status.h"

namespace tilewright {

// Every program counts the valid rows before its block by itself: with this block, that costs N²/2·64 reads
// of labels, next to nothing beside the N·H·V of the products, and no second kernel. A GPU's thread keeps a
// number for each of the rows, as it may have to clear them.
constexpr int64_t kBlock = 64;

namespace {

/// In the words of runtime/call_status.h; a place of 0 says that every label is good.
void reportLabel(KernelBuilder &k, const View &status, const Tile &sequence, const Tile &place,
                 const Tile &label, const Tile &classes, const Tile &ignoreIndex) {
  const auto store = [&](CallStatusWord word, const Tile &value) {
    k.store(status, k.range(Axis::rows, k.constant(word), 1), value);
  };
  store(kBadRowPlace, place);
  store(kBadLabel, label);
  store(kLabelClasses, classes);
  store(kLabelIgnoreIndex, ignoreIndex);
  store(kLabelCheck, sequence + place + label + classes + ignoreIndex);
}

} // namespace

Kernel compactRows(const CompactRowsSpec &spec) {
  const std::string clears = spec.dHidden ? std::string(",dx=") + elementName(*spec.dHidden) : "";
  return defineKernel("loss_compact_rows", elementName(spec.label) + clears, [spec](KernelBuilder &k) {
    const View label = k.input("label", spec.label, 1);
    const Index ignore = k.index("ignore_index"), classes = k.index("classes");
    const Index sequence = k.index("sequence");
    const View row = k.output("row", ElementType::i32, 1);
    const View compactLabel = k.output("compact_label", ElementType::i32, 1);
    const View summary = k.output("summary", ElementType::i32, 1);
    const View status = k.output("status", ElementType::i64, 1);
    const View rowLoss = k.output("row_loss", ElementType::f32, 1),
               lse = k.output("lse", ElementType::f32, 1);
    const View dHidden = spec.dHidden ? k.output("dx", *spec.dHidden, 2) : View();

    const Index n = label.dim(0);
    const Range rows = k.blockRows(n, kBlock), across = rows.along(Axis::columns), all = k.whole(n);
    const Tile begin = k.toTile(rows.begin, ElementType::i32);
    const Tile ignored = k.toTile(ignore, ElementType::i64);
    const auto isClass = [&](const Tile &y) { return (y >= 0) & (y < k.toTile(classes, ElementType::i64)); };
    const auto isValid = [&](const Tile &y) { return isClass(y) & (y != ignored); };

    const auto wide = [](const Tile &y) { return cast(y, ElementType::i64); };
    const Tile mine = wide(label[rows]), others = wide(label[across]), every = wide(label[all]);
    const Tile isMineValid = isValid(mine) & inside(k, rows, n);
    const Tile before = count(k, isValid(every) & (all.positions() < begin));
    const Tile place = before + count(k, isValid(others) & (across.positions() < rows.positions()));
    // Others fill the places behind from the last one on.
    const Tile othersBefore = rows.positions() - place,
               fromEnd = k.toTile(n, ElementType::i32) - 1 - othersBefore;
    const Tile target = select(isMineValid, place, select(inside(k, rows, n), fromEnd, -1));
    k.scatter(row, target, select(isMineValid, rows.positions(), -1));
    k.scatter(compactLabel, target, select(isMineValid, cast(mine, ElementType::i32), -1));

    k.store(rowLoss, rows, number(k, 0));
    k.store(lse, rows, number(k, 0));
    if (spec.dHidden) {
      const Tile unused = select(isMineValid, -1, rows.positions());
      k.ifThen(k.toCondition(max(unused, Axis::rows) >= 0),
               [&] { k.scatter(dHidden, unused, k.whole(dHidden.dim(1)), number(k, 0)); });
    }

    k.ifThen(rows.begin == k.constant(0), [&] {
      const Tile size = k.toTile(n, ElementType::i32);
      const Tile good = isClass(every) | (every == ignored);
      k.store(summary, k.range(Axis::rows, k.constant(0), 1), count(k, isValid(every)));
      const Tile firstBad = min(select(good, size, all.positions()), Axis::columns);
      const Tile isBad = firstBad < size;
      // Behind the last row there is no label to be read.
      const Tile found = wide(label[k.range(Axis::rows, k.toIndex(select(isBad, firstBad, 0)), 1)]);
      const auto wideIndex = [&](const Index &index) { return k.toTile(index, ElementType::i64); };
      const Tile none = wideIndex(k.constant(0)), row = wide(firstBad) + wideIndex(k.constant(1));
      reportLabel(k, status, wideIndex(sequence), select(isBad, row, none), select(isBad, found, none),
                  wideIndex(classes), ignored);
    });
  });
}

} // namespace tilewright
