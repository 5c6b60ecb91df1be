#include "kernels/gradient_scaling.h"

#include <string>
#include <utility>

#include "kernels/loss/kernels.h"
#include "runtime/argument_memory.h"

namespace tilewright {
namespace {

/// A vector as a matrix of one row.
TensorRef asMatrix(const TensorRef &tensor) {
  return tensor.rank == 2 ? tensor : TensorRef::matrix(tensor.data, tensor.element, 1, tensor.sizes[0]);
}

Status checkShapes(const TensorRef &gradient, const TensorRef &scale, const TensorRef &result,
                   bool isInPlace) {
  if (gradient.sizes[0] != result.sizes[0] || gradient.sizes[1] != result.sizes[1])
    return userError("a scaled gradient must have the gradient's shape");
  if (isInPlace && gradient.rowStride != result.rowStride)
    return userError("a gradient that is scaled in place keeps its row stride");
  if (scale.sizes[0] != 1)
    return userError("scale: expected one number, found " + std::to_string(scale.sizes[0]));
  return Status();
}

Status overlapError(const char *with) {
  return userError(std::string("result overlaps ") + with +
                   "; a scaled gradient lies apart, or replaces the gradient");
}

} // namespace

Status GradientScaling::checkMemory(const TensorRef &gradient, const TensorRef &scale,
                                    const TensorRef &result, bool isInPlace, Stream stream) const {
  if (overlap(result, scale)) return overlapError("scale");
  if (!isInPlace && overlap(result, gradient)) return overlapError("gradient");
  for (const auto &[name, tensor] :
       {std::pair{"gradient", &gradient}, std::pair{"scale", &scale}, std::pair{"result", &result}})
    if (const Status status = device_->checkAddress(tensor->data, stream); !status.ok())
      return status.in(name);
  return Status();
}

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
  const bool isInPlace = from.data == to.data;
  TW_RETURN_IF_ERROR(checkShapes(from, scale, to, isInPlace));
  TW_RETURN_IF_ERROR(checkMemory(from, scale, to, isInPlace, stream));
  if (isInPlace) return device_->launch(*inPlace_, {scale, to}, stream);
  return device_->launch(*apart_, {from, scale, to}, stream);
}

} // namespace tilewright
