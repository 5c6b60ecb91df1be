#include "kernels/gradient_scaling.h"

#include "bindings/c/handles.h"

struct tw_gradient_scaling {
  std::shared_ptr<tilewright::Runtime> runtime;
  tilewright::c::DevicePlace place;
  tilewright::GradientScaling scaling;
};

using namespace tilewright;
using namespace tilewright::c;

tw_code tw_gradient_scaling_prepare(tw_runtime *runtime, DLDataType type, tw_gradient_scaling **scaling,
                                    tw_error **error) {
  if (scaling) *scaling = nullptr;
  return guarded(error, [&]() -> Status {
    if (!runtime) return expected("runtime");
    if (!scaling) return expected("scaling");
    TW_ASSIGN_OR_RETURN(const ElementType element, elementTypeOf(type));
    if (!isFloat(element))
      return userError(std::string("type: expected f32, bf16 or f16, found ") + elementName(element));
    TW_ASSIGN_OR_RETURN(GradientScaling prepared, GradientScaling::prepare(*runtime->runtime, element));
    *scaling = new tw_gradient_scaling{runtime->runtime, runtime->place, std::move(prepared)};
    return {};
  });
}

void tw_gradient_scaling_free(tw_gradient_scaling *scaling) { release(scaling); }

tw_code tw_gradient_scaling_run(const tw_gradient_scaling *scaling, const DLTensor *gradient,
                                const DLTensor *scale, const DLTensor *result, void *stream,
                                tw_error **error) {
  return guarded(error, [&]() -> Status {
    if (!scaling) return expected("scaling");
    if (!gradient) return expected("gradient");
    if (!scale) return expected("scale");
    if (!result) return expected("result");
    const auto rankOf = [](const DLTensor *tensor) { return tensor->ndim == 2 ? 2 : 1; };
    TensorRef from, factor, to;
    TW_RETURN_IF_ERROR(readTensor({gradient, "gradient", rankOf(gradient), &from}, scaling->place, Use::run));
    TW_RETURN_IF_ERROR(readTensor({scale, "scale", 1, &factor}, scaling->place, Use::run));
    TW_RETURN_IF_ERROR(readTensor({result, "result", rankOf(result), &to}, scaling->place, Use::run));
    if (from.elements() == 0 && to.elements() == 0) return {};
    return scaling->scaling.run(from, factor, to, stream);
  });
}

tw_code tw_gradient_scaling_run_pair(const tw_gradient_scaling *scaling, const DLTensor *first,
                                     const DLTensor *second, const DLTensor *scale, void *stream,
                                     tw_error **error) {
  return guarded(error, [&]() -> Status {
    if (!scaling) return expected("scaling");
    if (!first) return expected("first");
    if (!second) return expected("second");
    if (!scale) return expected("scale");
    TensorRef a, b, factor;
    TW_RETURN_IF_ERROR(readTensor({first, "first", 2, &a}, scaling->place, Use::run));
    TW_RETURN_IF_ERROR(readTensor({second, "second", 2, &b}, scaling->place, Use::run));
    TW_RETURN_IF_ERROR(readTensor({scale, "scale", 1, &factor}, scaling->place, Use::run));
    if (a.elements() == 0 && b.elements() == 0) return {};
    return scaling->scaling.runPair(a, b, factor, stream);
  });
}
