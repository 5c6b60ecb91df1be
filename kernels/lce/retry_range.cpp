#include <limits>

#include "kernels/lce/forward_kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

Kernel retryRange() {
  return defineKernel("lce_retry_range", "", [](KernelBuilder &k) {
    const View retry = k.input("retry", ElementType::i32, 1);
    const View rowRange = k.output("row_range", ElementType::i32, 1);

    const Range rows = k.whole(retry.dim(0));
    const Tile isRetried = retry[rows] > 0, position = rows.positions();
    const Tile first = select(isRetried, position, std::numeric_limits<int32_t>::max());
    const Tile end = select(isRetried, position + 1, 0);

    k.store(rowRange, k.range(Axis::rows, k.constant(0), 1), min(first, Axis::columns));
    k.store(rowRange, k.range(Axis::rows, k.constant(1), 1), max(end, Axis::columns));
  });
}

} // namespace tilewright::lce
