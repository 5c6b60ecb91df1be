#include "kernels/loss/dsl_helpers.h"
#include "kernels/loss/kernels.h"

namespace tilewright {

Kernel reduceLoss(bool mean) {
  return defineKernel("loss_reduce_loss", mean ? "mean" : "sum", [mean](KernelBuilder &k) {
    const View rowLoss = k.input("row_loss", ElementType::f32, 1),
               validCount = k.input("valid_count", ElementType::i32, 1);
    const View loss = k.output("loss", ElementType::f32, 1);

    Tile total = sum(rowLoss[k.whole(rowLoss.dim(0))], Axis::columns);
    if (mean) total = total / validRows(k, validCount);
    k.store(loss, k.range(Axis::rows, k.constant(0), 1), total);
  });
}

} // namespace tilewright
