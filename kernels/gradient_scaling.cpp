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

Status checkTypes(ElementType gradient, ElementType result, ElementType prepared, bool isInPlace) {
  if (result == prepared && (gradient == prepared || (gradient == ElementType::f32 && !isInPlace))) return {};
  return userError(std::string("expected a gradient and a result of ") + elementName(prepared) +
                   ", or a gradient of f32 apart, found " + elementName(gradient) + " and " +
                   elementName(result));
}

Status checkShapes(const TensorRef &gradient, const TensorRef &result, bool isInPlace) {
  if (gradient.sizes[0] != result.sizes[0] || gradient.sizes[1] != result.sizes[1])
    return userError("a scaled gradient must have the gradient's shape");
  if (isInPlace && gradient.rowStride != result.rowStride)
    return userError("a gradient that is scaled in place keeps its row stride");
  return Status();
}

Status overlapError(const char *with) {
  return userError(std::string("result overlaps ") + with +
                   "; a scaled gradient lies apart, or replaces the gradient");
}

using NamedTensor = std::pair<const char *, const TensorRef *>;

Status checkAddresses(Device &device, std::initializer_list<NamedTensor> tensors, Stream stream) {
  for (const auto &[name, tensor] : tensors)
    if (const Status status = device.checkAddress(tensor->data, stream); !status.ok()) return status.in(name);
  return Status();
}

Status checkScale(const TensorRef &scale) {
  if (scale.sizes[0] != 1)
    return userError("scale: expected one number, found " + std::to_string(scale.sizes[0]));
  return Status();
}

} // namespace

std::vector<JitRequest> GradientScaling::kernels(ElementType element) {
  std::vector<JitRequest> requests = {{scaleGradientInPlace(element), {}},
                                      {scaleGradientPair(element), {}},
                                      {scaleGradient(element, element), {}}};
  if (element != ElementType::f32) requests.push_back({scaleGradient(ElementType::f32, element), {}});
  return requests;
}

StatusOr<GradientScaling> GradientScaling::prepare(Runtime &runtime, ElementType element) {
  TW_ASSIGN_OR_RETURN(const std::vector<KernelHandle> made, jitAll(runtime, kernels(element)));
  return GradientScaling(runtime.device(), element, made);
}

Status GradientScaling::run(const TensorRef &gradient, const TensorRef &scale, const TensorRef &result,
                            Stream stream) const {
  const TensorRef from = asMatrix(gradient), to = asMatrix(result);
  const bool isInPlace = from.data == to.data;
  TW_RETURN_IF_ERROR(checkTypes(from.element, to.element, element_, isInPlace));
  TW_RETURN_IF_ERROR(checkShapes(from, to, isInPlace));
  TW_RETURN_IF_ERROR(checkScale(scale));
  if (overlap(to, scale)) return overlapError("scale");
  if (!isInPlace && overlap(to, from)) return overlapError("gradient");
  TW_RETURN_IF_ERROR(
      checkAddresses(*device_, {{"gradient", &from}, {"scale", &scale}, {"result", &to}}, stream));
  if (isInPlace) return device_->launch(*inPlace_, {scale, to}, stream);
  return device_->launch(from.element == element_ ? *apart_ : *rounding_, {from, scale, to}, stream);
}

Status GradientScaling::runPair(const TensorRef &first, const TensorRef &second, const TensorRef &scale,
                                Stream stream) const {
  TW_RETURN_IF_ERROR(checkScale(scale));
  if (overlap(first, scale) || overlap(second, scale)) return overlapError("scale");
  if (overlap(first, second)) return userError("first overlaps second; each gradient is scaled once");
  if (first.sizes[1] != second.sizes[1])
    return userError("expected two gradients of as many columns, found " + std::to_string(first.sizes[1]) +
                     " and " + std::to_string(second.sizes[1]));
  TW_RETURN_IF_ERROR(
      checkAddresses(*device_, {{"first", &first}, {"second", &second}, {"scale", &scale}}, stream));
  const bool inOrder = first.sizes[0] >= second.sizes[0];
  return device_->launch(*pair_, {scale, inOrder ? first : second, inOrder ? second : first}, stream);
}

} // namespace tilewright
