#include "kernels/lce/kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

// Beyond this, E and the gradients' factors come near the end of fp32's (and bf16's) range. An infinite S is
// beyond; a NaN is not, for no anchor would mend it.
constexpr double kLargestSum = 0x1p60;
// A warp a row: it has nobody to wait for but memory, and many of them wait side by side.
constexpr int64_t kRows = 1;
constexpr int kWarps = 1;

Kernel checkAnchor() {
  return defineKernel("lce_check_anchor", "", [](KernelBuilder &k) {
    const View sums = k.input("sums", ElementType::f32, 2), tops = k.input("tops", ElementType::f32, 2);
    const View anchor = k.output("anchor", ElementType::f32, 1), redo = k.output("redo", ElementType::i32, 1);

    const Range rows = k.blockRows(anchor.dim(0), kRows), tiles = k.whole(sums.dim(1));
    const Tile total = sum(sums.at(rows, tiles), Axis::columns);
    const Tile top = max(tops.at(rows, tiles), Axis::columns);

    const Tile wrong = (redo[rows] > 0) & (total > kLargestSum);

    k.store(anchor, rows, select(wrong, top, anchor[rows]));
    k.store(redo, rows, select(wrong, integer(k, 1), 0));
  });
}

CompileOptions checkAnchorOptions() {
  CompileOptions options;
  options.schedule.warps = kWarps;
  return options;
}

} // namespace tilewright::lce
