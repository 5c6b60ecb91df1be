#include <limits>

#include "kernels/lce/kernels.h"
#include "kernels/loss/dsl_helpers.h"

namespace tilewright::lce {

Kernel pendingRows() {
  return defineKernel("lce_pending_rows", "", [](KernelBuilder &k) {
    const View redo = k.input("redo", ElementType::i32, 1);
    const View pending = k.output("pending", ElementType::i32, 1);

    const Range rows = k.whole(redo.dim(0));
    const Tile isPending = redo[rows] > 0, position = rows.positions();
    const Tile first = select(isPending, position, std::numeric_limits<int32_t>::max());
    const Tile end = select(isPending, position + 1, 0);

    k.store(pending, k.range(Axis::rows, k.constant(0), 1), min(first, Axis::columns));
    k.store(pending, k.range(Axis::rows, k.constant(1), 1), max(end, Axis::columns));
  });
}

} // namespace tilewright::lce
