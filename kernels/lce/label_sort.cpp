#include "kernels/lce/label_sort.h"

#include <algorithm>
#include <functional>
#include <string>

#include "compiler/base/integers.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {
namespace {

constexpr int64_t kBlock = kSortedBlock;
constexpr int64_t kStep = 32;            ///< of these, rows that are compared with one another at once
constexpr int64_t kGroup = kSortedGroup; ///< whose counts a program adds up by itself
constexpr int kMostDigitBits = 7;        ///< a row is compared with each value of its digit
constexpr int kLeastDigitBits = 4;       ///< fewer values would leave lanes of a vector idle
constexpr int64_t kSegmentRows = 128;    ///< rows of one program that looks at the sorted order
static_assert(kBlock % kStep == 0);

/// x / divisor, rounded down, for 0 <= x < 2^24 divisor and a divisor that is a power of two. The quotient of
/// x as fp32 is right but where rounding x lifted it to the next multiple of the divisor.
Tile quotient(const Tile &x, const Tile &divisor) {
  const Tile guess = cast(cast(x, ElementType::f32) / cast(divisor, ElementType::f32), ElementType::i32);
  return guess - cast(guess * divisor > x, ElementType::i32);
}

/// The parameters of a pass that both of its kernels over rows have.
struct Pass {
  KernelBuilder &k;
  DigitSpec spec;
  View label;
  Index divisor;
  View order;

  Pass(KernelBuilder &k, const DigitSpec &spec) : k(k), spec(spec) {
    label = k.input("label", ElementType::i32, 1);
    divisor = k.index("divisor");
    if (!spec.first) order = k.input("order", ElementType::i32, 1);
  }

  Range digits() const { return k.range(Axis::columns, k.constant(0), spec.radix); }
  Tile none() const { return digits().positions() * 0; }

  /// The rows at these positions of the order, -1 past its end.
  Tile rowsAt(const Range &at) const {
    return spec.first ? select(inside(k, at, label.dim(0)), at.positions(), -1) : rowNumbers(k, order, at);
  }
  /// The digit of each row, -1 where there is none.
  Tile digitOf(const Tile &rows) const {
    const Tile key = label.gather(rows) + 1;
    const Tile high = spec.first ? key : quotient(key, k.toTile(divisor, ElementType::i32));
    const Tile digit = high - quotient(high, integer(k, spec.radix)) * spec.radix;
    return select(rows >= 0, digit, -1);
  }
  /// Which digit each row has, kStep×D, as 0 and 1.
  Tile isDigit(const Tile &digit) const { return cast(digit == digits().positions(), ElementType::i32); }

  /// A block's rows, some at a time; `sums` has something of each digit.
  std::vector<Tile> forRows(const Range &block, const Tile &sums,
                            const std::function<Tile(const Tile &rows, const Tile &sums)> &body) const {
    const Index end = min(block.begin + kBlock, label.dim(0));
    return k.forRange(block.begin, end, kStep, {sums}, [&](Index i, const std::vector<Tile> &carried) {
      return std::vector<Tile>{body(rowsAt(k.range(Axis::rows, i, kStep)), carried[0])};
    });
  }
};

std::string specialisationOf(const DigitSpec &spec) {
  return std::to_string(spec.radix) + (spec.first ? ",first" : "");
}

/// The sorted order, as kernels behind the sort see it.
struct SortedRows {
  KernelBuilder &k;
  View label, order;
  Range at; ///< one program's positions

  Tile labels() const { return labelsAt(at); }
  Tile labelsBefore() const { return labelsAt(k.range(Axis::rows, at.begin - 1, kSegmentRows)); }
  Tile labelsBehind() const { return labelsAt(k.range(Axis::rows, at.begin + 1, kSegmentRows)); }

private:
  /// -1 before the first position and past the last one.
  Tile labelsAt(const Range &positions) const {
    const Tile row = select(positions.positions() >= 0, rowNumbers(k, order, positions), -1);
    return select(row >= 0, label.gather(row), -1);
  }
};

} // namespace

// Comparing all pairs takes a GPU less than the launches of a radix sort for more rows than a CPU.
int64_t mostRankedRows(TargetKind target) { return target == TargetKind::cpu ? 4096 : 16384; }

int64_t LabelSort::divisor(int pass) const {
  int64_t result = 1;
  for (int i = 0; i < pass; ++i)
    result *= radix;
  return result;
}

LabelSort planLabelSort(int64_t rows, int64_t classes) {
  int bits = 1; // of the largest key, which is the number of classes
  while (classes >> bits > 0)
    ++bits;
  LabelSort sort;
  sort.passes = static_cast<int>(ceilDiv(bits, kMostDigitBits));
  sort.radix = int64_t(1) << std::max<int64_t>(ceilDiv(bits, sort.passes), kLeastDigitBits);
  sort.blocks = ceilDiv(rows, kBlock);
  sort.groups = ceilDiv(sort.blocks, kGroup) + 1;
  return sort;
}

CompileOptions sortOptions(TargetKind target) {
  CompileOptions options;
  if (target != TargetKind::cpu) options.schedule.warps = 4;
  return options;
}

Kernel countDigits(const DigitSpec &spec) {
  return defineKernel("lce_count_digits", specialisationOf(spec), [spec](KernelBuilder &k) {
    const Pass pass(k, spec);
    const View counts = k.output("counts", ElementType::i32, 2);

    const Range block = k.blockRows(pass.label.dim(0), kBlock);
    const Tile count = pass.forRows(block, pass.none(), [&](const Tile &rows, const Tile &sums) {
      return sums + sum(pass.isDigit(pass.digitOf(rows)), Axis::rows);
    })[0];
    k.store(counts, k.range(Axis::rows, k.programId(0), 1), pass.digits(), count);
  });
}

// One program: it reads a number of each digit for kBlock rows, in steps of a group.
Kernel scanDigits(int64_t radix) {
  return defineKernel("lce_scan_digits", std::to_string(radix), [radix](KernelBuilder &k) {
    const View counts = k.input("counts", ElementType::i32, 2);
    const View starts = k.output("starts", ElementType::i32, 2);

    const Range digits = k.range(Axis::columns, k.constant(0), radix), down = digits.along(Axis::rows);
    const auto row = [&](const Index &i) { return k.range(Axis::rows, i, 1); };
    const auto addGroup = [&](const Index &i, const std::vector<Tile> &sums) {
      k.store(starts, row(i / kGroup), digits, sums[0]);
      const Tile group = counts.at(k.range(Axis::rows, i, kGroup), digits);
      return std::vector<Tile>{sums[0] + sum(group, Axis::rows)};
    };
    const Tile total =
        k.forRange(k.constant(0), counts.dim(0), kGroup, {digits.positions() * 0}, addGroup)[0];

    // The totals one below the other, so that each can be added to all digits behind it.
    const Tile below = sum(select(down.positions() == digits.positions(), total, 0), Axis::columns);
    const Tile smaller = sum(select(down.positions() < digits.positions(), below, 0), Axis::rows);
    k.store(starts, row(starts.dim(0) - 1), digits, smaller);
  });
}

Kernel placeByDigit(const DigitSpec &spec) {
  return defineKernel("lce_place_by_digit", specialisationOf(spec), [spec](KernelBuilder &k) {
    const Pass pass(k, spec);
    const View counts = k.input("counts", ElementType::i32, 2),
               starts = k.input("starts", ElementType::i32, 2);
    const View sorted = k.output("sorted", ElementType::i32, 1);

    const Range block = k.blockRows(pass.label.dim(0), kBlock), digits = pass.digits();
    const Index number = k.programId(0), group = number / kGroup;
    const auto startsAt = [&](const Index &i) { return starts.at(k.range(Axis::rows, i, 1), digits); };
    const Range blocks = k.range(Axis::rows, group * k.constant(kGroup), kGroup);
    const Tile isBefore = blocks.positions() < k.toTile(number, ElementType::i32);
    const Tile inGroup = sum(select(isBefore, counts.at(blocks, digits), 0), Axis::rows);
    const Tile begin = startsAt(starts.dim(0) - 1) + startsAt(group) + inGroup;

    const Range step = k.range(Axis::rows, k.constant(0), kStep);
    const Tile isEarlier = step.along(Axis::columns).positions() < step.positions();
    pass.forRows(block, begin, [&](const Tile &rows, const Tile &next) {
      const Tile digit = pass.digitOf(rows), isDigit = pass.isDigit(digit);
      const Tile place =
          sum(isDigit * next, Axis::columns) + count(k, (transpose(digit) == digit) & isEarlier);
      k.scatter(sorted, select(rows >= 0, place, -1), rows);
      return next + sum(isDigit, Axis::rows);
    });
  });
}

Kernel findSegments() {
  return defineKernel("lce_find_segments", "", [](KernelBuilder &k) {
    const View label = k.input("label", ElementType::i32, 1), order = k.input("order", ElementType::i32, 1);
    const View run = k.output("run", ElementType::i32, 1), slot = k.output("slot", ElementType::i32, 1);

    const SortedRows sorted{k, label, order, k.blockRows(order.dim(0), kSegmentRows)};
    const Tile mine = sorted.labels();
    k.store(run, sorted.at, integer(k, 0));
    k.scatter(slot, select(mine != sorted.labelsBefore(), mine, -1), sorted.at.positions());
  });
}

Kernel measureSegments() {
  return defineKernel("lce_measure_segments", "", [](KernelBuilder &k) {
    const View label = k.input("label", ElementType::i32, 1), order = k.input("order", ElementType::i32, 1);
    const View slot = k.input("slot", ElementType::i32, 1), run = k.output("run", ElementType::i32, 1);

    const SortedRows sorted{k, label, order, k.blockRows(order.dim(0), kSegmentRows)};
    const Tile mine = sorted.labels();
    const Tile isLast = (mine >= 0) & (mine != sorted.labelsBehind());
    const Tile begin = slot.gather(mine);
    k.scatter(run, select(isLast, begin, -1), sorted.at.positions() + 1 - begin);
  });
}

} // namespace tilewright::lce
