#include "kernels/gradient_scaling.h"

#include "kernels/loss/kernels.h"

namespace tilewright {
namespace {

/// A vector as a matrix of one row.
TensorRef asMatrix(const TensorRef &tensor) {
  return tensor.rank == 2 ? tensor : TensorRef::matrix(tensor.data, tensor.element, 1, tensor.sizes[0]);
}

} // namespace

std::vector<JitRequest> GradientScaling::kernels(ElementType element) {
  return {{scaleGradient(element, true), {}}, {scaleGradient(element, false), {}}};
}

StatusOr<GradientScaling> GradientScaling::prepare(Runtime &runtime, ElementType element) {
  TW_ASSIGN_OR_RETURN(const std::vector<KernelHandle> made, jitAll(runtime, kernels(element)));
  return GradientScaling(runtime.device(), made[0], made[1]);
}

Status GradientScaling::run(const TensorRef &gradient, const TensorRef &scale, const TensorRef &result,
                            Stream stream) const {
  const TensorRef from = asMatrix(gradient), to = asMatrix(result);
  if (from.sizes[0] != to.sizes[0] || from.sizes[1] != to.sizes[1])
    return userError("a scaled gradient must have the gradient's shape");
  if (from.data != to.data) return device_->launch(*apart_, {from, scale, to}, stream);
  if (from.rowStride != to.rowStride)
    return userError("a gradient that is scaled in place keeps its row stride");
  return device_->launch(*inPlace_, {scale, to}, stream);
}

} // namespace tilewright
