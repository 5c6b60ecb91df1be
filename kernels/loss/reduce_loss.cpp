#include "kernels/loss/dsl_helpers.h"
#include "kernels/loss/kernels.h"

namespace tilewright {

LossReduction::LossReduction(KernelBuilder &k, bool mean) : k_(k), mean_(mean) {
  rowLoss_ = k.input("row_loss", ElementType::f32, 1);
  validCount_ = k.input("valid_count", ElementType::i32, 1);
  loss_ = k.output("loss", ElementType::f32, 1);
}

void LossReduction::store() const {
  Tile total = sum(rowLoss_[k_.whole(rowLoss_.dim(0))], Axis::columns);
  if (mean_) total = total / validRows(k_, validCount_);
  storeFirst(k_, loss_, total);
}

Kernel reduceLoss(bool mean) {
  return defineKernel("loss_reduce_loss", mean ? "mean" : "sum",
                      [mean](KernelBuilder &k) { LossReduction(k, mean).store(); });
}

} // namespace tilewright
