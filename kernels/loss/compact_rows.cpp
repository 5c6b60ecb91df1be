#include <limits>
#include <utility>

#include "kernels/loss/dsl_helpers.h"
#include "kernels/loss/kernels.h"
#include "runtime/call_status.h"

namespace tilewright {

// A GPU's thread keeps a number for each of the rows, as it may have to clear them.
constexpr int64_t kBlock = 64;
static_assert(kCountedRows % kBlock == 0);

namespace {

/// Which labels are classes, and which of these are not ignored.
struct LabelTest {
  Tile classes, ignored; ///< i64
  LabelTest(KernelBuilder &k, const Index &ignore, const Index &classes)
      : classes(k.toTile(classes, ElementType::i64)), ignored(k.toTile(ignore, ElementType::i64)) {}
  Tile isClass(const Tile &y) const { return (y >= 0) & (y < classes); }
  Tile isValid(const Tile &y) const { return isClass(y) & (y != ignored); }
  Tile isGood(const Tile &y) const { return isClass(y) | (y == ignored); }
};

Tile wide(const Tile &y) { return cast(y, ElementType::i64); }

Tile rowCount(KernelBuilder &k, const View &label) { return k.toTile(label.dim(0), ElementType::i32); }

/// What a program has to know of rows that are not its own.
struct AllRows {
  Tile valid;    ///< how many are valid
  Tile firstBad; ///< the first one whose label is neither a class nor ignored, else the number of rows
};

/// Read off all labels.
struct UncountedRows {
  KernelBuilder &k;
  const View &label;
  const LabelTest &test;

  /// The number of valid rows before a row.
  Tile validBefore(const Index &row) const {
    const Range all = k.whole(label.dim(0));
    return count(k, test.isValid(wide(label[all])) & (all.positions() < k.toTile(row, ElementType::i32)));
  }
  AllRows all() const {
    const Range all = k.whole(label.dim(0));
    const Tile every = wide(label[all]);
    const Tile bad = select(test.isGood(every), rowCount(k, label), all.positions());
    return {count(k, test.isValid(every)), min(bad, Axis::columns)};
  }
};

/// Read off what `countRows` and `scanRows` counted, and the labels of one block of theirs.
struct CountedRows {
  KernelBuilder &k;
  const View &label;
  const LabelTest &test;
  const View &counts, &starts;

  Tile validBefore(const Index &row) const {
    const Index block = row / kCountedRows, group = block / kCountedBlocks;
    const Range blocks = k.range(Axis::columns, group * kCountedBlocks, kCountedBlocks);
    const Tile isBefore = blocks.positions() < k.toTile(block, ElementType::i32);
    const Tile inGroup = sum(select(isBefore, onlyRow(k, counts, blocks), 0), Axis::columns);
    const Range own = k.range(Axis::columns, block * kCountedRows, kCountedRows);
    const Tile isOwnBefore = own.positions() < k.toTile(row, ElementType::i32);
    return startAt(group) + inGroup + count(k, test.isValid(wide(label[own])) & isOwnBefore);
  }
  AllRows all() const {
    const Index groups = starts.dim(0) - 2;
    return {startAt(groups), startAt(groups + 1)};
  }

private:
  Tile startAt(const Index &i) const { return starts[k.range(Axis::rows, i, 1)]; }
};

/// In the words of runtime/call_status.h. Where no label is bad, `firstBad` is the number of rows, and a load
/// there gives 0.
void storeLabelStatus(KernelBuilder &k, const View &status, const View &label, const LabelTest &test,
                      const Tile &firstBad, const Index &sequence) {
  const Tile isBad = firstBad < rowCount(k, label);
  const std::pair<CallStatusWord, Tile> words[] = {
      {kBadRowPlace, select(isBad, wide(firstBad) + 1, 0)},
      {kBadLabel, wide(label[k.range(Axis::rows, k.toIndex(firstBad), 1)])},
      {kLabelClasses, select(isBad, test.classes, 0)},
      {kLabelIgnoreIndex, select(isBad, test.ignored, 0)}};
  Tile check = k.toTile(sequence, ElementType::i64);
  for (const auto &[word, value] : words) {
    k.store(status, k.range(Axis::rows, k.constant(word), 1), value);
    check = check + value;
  }
  k.store(status, k.range(Axis::rows, k.constant(kLabelCheck), 1), check);
}

} // namespace

std::string CompactRowsSpec::str() const {
  return elementName(label) + (dHidden ? std::string(",dx=") + elementName(*dHidden) : "");
}

Kernel countRows(ElementType labelType) {
  return defineKernel("loss_count_rows", elementName(labelType), [labelType](KernelBuilder &k) {
    const View label = k.input("label", labelType, 1);
    const Index ignore = k.index("ignore_index"), classes = k.index("classes");
    const View counts = k.output("counts", ElementType::i32, 2);

    const LabelTest test(k, ignore, classes);
    const Range rows = k.blockColumns(label.dim(0), kCountedRows);
    const Tile isRow = inside(k, rows, label.dim(0)), mine = wide(label[rows]);
    const Tile bad = select(test.isGood(mine) | (rows.positions() >= rowCount(k, label)), rowCount(k, label),
                            rows.positions());
    const auto store = [&](int64_t row, const Tile &value) {
      k.store(counts, k.range(Axis::rows, k.constant(row), 1), k.range(Axis::columns, k.programId(0), 1),
              value);
    };
    store(0, count(k, test.isValid(mine) & isRow));
    store(1, min(bad, Axis::columns));
  });
}

// One program: it reads two numbers for kCountedRows rows, in steps of a group.
Kernel scanRows() {
  return defineKernel("loss_scan_rows", "", [](KernelBuilder &k) {
    const View counts = k.input("counts", ElementType::i32, 2);
    const View starts = k.output("starts", ElementType::i32, 1);

    const Index blocks = counts.dim(1), groups = starts.dim(0) - 2;
    const auto store = [&](const Index &i, const Tile &value) {
      k.store(starts, k.range(Axis::rows, i, 1), value);
    };
    const Tile most = integer(k, std::numeric_limits<int32_t>::max());
    const auto addGroup = [&](const Index &i, const std::vector<Tile> &carried) {
      const Range group = k.range(Axis::columns, i, kCountedBlocks);
      const auto row = [&](int64_t r) { return counts.at(k.range(Axis::rows, k.constant(r), 1), group); };
      store(i / kCountedBlocks, carried[0]);
      const Tile bad = select(inside(k, group, blocks), row(1), most);
      return std::vector<Tile>{carried[0] + sum(row(0), Axis::columns),
                               min(carried[1], min(bad, Axis::columns))};
    };
    const std::vector<Tile> all =
        k.forRange(k.constant(0), blocks, kCountedBlocks, {integer(k, 0), most}, addGroup);
    store(groups, all[0]);
    store(groups + 1, all[1]);
  });
}

RowCompaction::RowCompaction(KernelBuilder &k, const CompactRowsSpec &spec) : k_(k), spec_(spec) {
  constexpr ElementType i32 = ElementType::i32, f32 = ElementType::f32;
  label_ = k.input("label", spec.label, 1);
  ignore_ = k.index("ignore_index"), classes_ = k.index("classes"), sequence_ = k.index("sequence");
  if (spec.counted) counts_ = k.input("counts", i32, 2), starts_ = k.input("starts", i32, 1);
  row_ = k.output("row", i32, 1), compactLabel_ = k.output("compact_label", i32, 1);
  validCount_ = k.output("valid_count", i32, 1), status_ = k.output("status", ElementType::i64, 1);
  rowLoss_ = k.output("row_loss", f32, 1), lse_ = k.output("lse", f32, 1);
  if (spec.dHidden) dHidden_ = k.output("dx", *spec.dHidden, 2);
  rows_ = label_.dim(0);
}

RowCompaction::Rows RowCompaction::compact(const Range &rows,
                                           const std::function<void(const Tile &)> &first) const {
  KernelBuilder &k = k_;
  const LabelTest test(k, ignore_, classes_);
  const Range across = rows.along(Axis::columns);
  const UncountedRows uncounted{k, label_, test};
  const CountedRows counted{k, label_, test, counts_, starts_};
  const Tile before = spec_.counted ? counted.validBefore(rows.begin) : uncounted.validBefore(rows.begin);
  const Tile mine = wide(label_[rows]), isRow = inside(k, rows, rows_), isValid = test.isValid(mine) & isRow;
  const Tile isBesideValid = test.isValid(wide(label_[across])) & (across.positions() < rows.positions());
  const Tile validPlace = before + count(k, isBesideValid);
  // Rows that are not valid fill the places behind from the last one on.
  const Tile othersBefore = rows.positions() - validPlace, fromEnd = rowCount(k, label_) - 1 - othersBefore;
  const Tile place = select(isValid, validPlace, select(isRow, fromEnd, -1));
  k.scatter(row_, place, select(isValid, rows.positions(), -1));
  k.scatter(compactLabel_, place, select(isValid, cast(mine, ElementType::i32), -1));

  k.store(rowLoss_, rows, number(k, 0));
  k.store(lse_, rows, number(k, 0));
  if (spec_.dHidden) {
    const Tile unused = select(isValid, -1, rows.positions());
    k.ifThen(anyIsThere(k, unused),
             [&] { k.scatter(dHidden_, unused, k.whole(dHidden_.dim(1)), number(k, 0)); });
  }

  k.ifThen(rows.begin == k.constant(0), [&] {
    const AllRows all = spec_.counted ? counted.all() : uncounted.all();
    storeFirst(k, validCount_, all.valid);
    storeLabelStatus(k, status_, label_, test, all.firstBad, sequence_);
    if (first) first(all.valid);
  });
  return {isValid, mine, place};
}

Kernel compactRows(const CompactRowsSpec &spec) {
  const std::string specialisation = spec.str() + (spec.counted ? ",counted" : "");
  return defineKernel("loss_compact_rows", specialisation, [spec](KernelBuilder &k) {
    const RowCompaction compaction(k, spec);
    compaction.compact(k.blockRows(compaction.rows(), kBlock));
  });
}

} // namespace tilewright
