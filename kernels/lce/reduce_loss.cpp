#include "kernels/dsl_helpers.h"
#include "kernels/lce/kernels.h"

namespace tilewright::lce {

Kernel reduceLoss(bool mean) {
  return defineKernel("lce_reduce_loss", mean ? "mean" : "sum", [mean](KernelBuilder &k) {
    const View rowLoss = k.input("row_loss", ElementType::f32, 1),
               summary = k.input("summary", ElementType::i32, 1);
    const View loss = k.output("loss", ElementType::f32, 1);

    Tile total = sum(rowLoss[k.whole(rowLoss.dim(0))], Axis::columns);
    if (mean) total = total / cast(max(first(k, summary), integer(k, 1)), ElementType::f32);
    k.store(loss, k.range(Axis::rows, k.constant(0), 1), total);
  });
}

} // namespace tilewright::lce
