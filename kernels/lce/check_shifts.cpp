#include "kernels/lce/finish_row.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

// Beyond this, E and the gradients' factors come near the end of fp32's (and bf16's) range. An infinite S is
// beyond; a NaN is not, for no shift would mend it.
constexpr double kLargestSum = 0x1p60;
// A row is a warp's, which has nobody to wait for but memory; of CTAs with one warp a multiprocessor holds
// too few, and 16384 of them take 20 µs to begin.
constexpr int64_t kRows = 4;
constexpr int kWarps = 4;
constexpr int64_t kWarpColumns = 128; ///< fp32 numbers, four a thread

namespace {

Tile isOutOfRange(const View &retry, const Range &rows, const Tile &total) {
  return (retry[rows] > 0) & (total > kLargestSum * kUnitOfE);
}

/// Which rows the forward product is to compute, and which it has to compute again: none so far.
struct RowRanges {
  View valid, retried;

  RowRanges(KernelBuilder &k, bool tellsRange) {
    if (!tellsRange) return;
    valid = k.input("row_range", ElementType::i32, 1);
    retried = k.output("retry_range", ElementType::i32, 1);
  }
  /// All valid rows again, if one of these is wrong. Whichever programs say so store the same number.
  void tell(KernelBuilder &k, const Tile &wrong) const {
    if (!retried.valid()) return;
    const Range end = k.range(Axis::rows, k.constant(1), 1);
    k.ifThen(anyHolds(k, wrong), [&] { k.store(retried, end, valid[end]); });
  }
};

const char *str(bool tellsRange) { return tellsRange ? "range" : ""; }

} // namespace

Kernel checkShifts(bool tellsRange) {
  return defineKernel("lce_check_shifts", str(tellsRange), [tellsRange](KernelBuilder &k) {
    const View sums = k.input("sums", ElementType::f32, 2), tops = k.input("tops", ElementType::f32, 2);
    const View shift = k.output("shift", ElementType::f32, 1), retry = k.output("retry", ElementType::i32, 1);
    const RowRanges ranges(k, tellsRange);

    const Range rows = k.blockRows(shift.dim(0), kRows), blocks = k.whole(sums.dim(1));
    const Tile total = sum(sums.at(rows, blocks), Axis::columns);
    const Tile top = max(tops.at(rows, blocks), Axis::columns);

    const Tile wrong = isOutOfRange(retry, rows, total);

    k.store(shift, rows, select(wrong, top, shift[rows]));
    k.store(retry, rows, select(wrong, integer(k, 1), 0));
    ranges.tell(k, wrong);
  });
}

Kernel totalSums(bool tellsRange) {
  return defineKernel("lce_total_sums", str(tellsRange), [tellsRange](KernelBuilder &k) {
    const View sums = k.input("sums", ElementType::f32, 2);
    const View total = k.output("total", ElementType::f32, 1), retry = k.output("retry", ElementType::i32, 1);
    const RowRanges ranges(k, tellsRange);

    const Range rows = k.blockRows(total.dim(0), kRows);
    const Tile all = sum(sums.at(rows, k.whole(sums.dim(1))), Axis::columns);

    const Tile wrong = isOutOfRange(retry, rows, all);

    k.store(total, rows, all);
    k.store(retry, rows, select(wrong, integer(k, 1), 0));
    ranges.tell(k, wrong);
  });
}

Kernel joinSums(bool tellsUnits) {
  return defineKernel("lce_join_sums", tellsUnits ? "units" : "", [tellsUnits](KernelBuilder &k) {
    const View sums = k.input("sums", ElementType::f32, 2), tops = k.input("tops", ElementType::f32, 2);
    const View retry = k.input("retry", ElementType::i32, 1);
    const View total = k.output("total", ElementType::f32, 1), shift = k.output("shift", ElementType::f32, 1);
    const View unit = tellsUnits ? k.output("unit_e", ElementType::f32, 1) : View();

    const Range rows = k.blockRows(total.dim(0), kRows), blocks = k.whole(sums.dim(1));
    const Tile asked = retry[rows], isWanted = asked > 0;
    k.ifThen(k.toCondition(max(asked, Axis::rows) > 0), [&] {
      const auto join = [&](const auto &joined) {
        k.store(total, rows, select(isWanted, joined.total, total[rows]));
        k.store(shift, rows, select(isWanted, joined.shift, shift[rows]));
      };
      if (!tellsUnits) return join(JoinedBlocks(sums.at(rows, blocks), tops.at(rows, blocks), shift[rows]));
      const JoinedRaised joined(sums.at(rows, blocks), tops.at(rows, blocks), shift[rows]);
      join(joined);
      k.store(unit, rows, joined.unit);
    });
  });
}

CompileOptions rowSumOptions(TargetKind target) {
  CompileOptions options;
  if (target == TargetKind::cpu) return options;
  options.schedule.warps = kWarps;
  options.schedule.rowBlock = kWarpColumns;
  options.schedule.rowUnroll = 1;
  return options;
}

} // namespace tilewright::lce
