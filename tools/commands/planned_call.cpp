#include "tools/commands/planned_call.h"

#include "autotune/tuning_cache.h"
#include "kernels/lce/search.h"
#include "kernels/lce/tensors.h"
#include "kernels/lce_call.h"

namespace tilewright {

LinearCrossEntropyTensors tensorsWithoutData(const ProblemShape &shape, ElementType element) {
  alignas(256) static char place; // as allocated memory is
  LinearCrossEntropyTensors t;
  t.hidden = t.dHidden = TensorRef::matrix(&place, element, shape.rows, shape.hidden);
  t.weight = t.dWeight = TensorRef::matrix(&place, element, shape.classes, shape.hidden);
  t.label = TensorRef::vector(&place, ElementType::i64, shape.rows);
  t.loss = TensorRef::vector(&place, ElementType::f32, 1);
  t.lse = TensorRef::vector(&place, ElementType::f32, shape.rows);
  return t;
}

StatusOr<PlannedCall> plannedCall(const DeviceInfo &device, const ProblemShape &shape, ElementType element,
                                  const std::string &cacheDir) {
  TW_ASSIGN_OR_RETURN(const lce::Request request,
                      lce::requestFor(tensorsWithoutData(shape, element), {}, device));
  PlannedCall call;
  if (!cacheDir.empty())
    if (const auto record = TuningCache::shared(cacheDir)->find(lce::tuningKey(request, device)))
      if (const auto config = lce::tunedConfig(*record, request, Variant::automatic, 0, device))
        call.config = *config, call.tuned = true;
  if (!call.tuned) {
    TW_ASSIGN_OR_RETURN(call.config, lce::plan(request, Variant::automatic, 0, device));
  }
  const lce::Scheme scheme = lce::schemeFor(request, call.config.variant);
  call.scheme = scheme.str();
  call.workspaceBytes = lce::workspaceBytes(scheme, call.config);
  return call;
}

} // namespace tilewright
