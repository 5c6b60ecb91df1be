#include "kernels/lce/phases/phases.h"

namespace tilewright::lce {

CompileOptions Emitter::optionsFor(ProductKind kind) const {
  const Product &product = c[kind];
  CompileOptions options;
  // Where E is fp32 for f16 inputs, a tensor core rounds it no more than f16 rounds the gradients.
  options.tf32 = s.tf32 || (s.element == ElementType::f16 && s.tensorCores);
  options.schedule.contractionStep = product.contractionStep;
  options.schedule.stages = product.stages;
  options.schedule.roles = product.roles;
  options.schedule.rasterRows = product.rasterRows;
  options.schedule.clusterCtas = product.clusterCtas;
  options.alignedMatrices = s.aligned && hasRoles(product);
  // On a GPU without roles four warps have registers for a product and its exponentials, or for storing it,
  // and not for more.
  const bool isHeavy = kind == ProductKind::forward   ? s.terms.margin || s.outputs.best
                       : kind == ProductKind::again   ? s.terms.margin
                       : kind == ProductKind::dWeight ? s.accumulate || c.weightParts(s) > 1
                                                      : false;
  if (isHeavy && target == TargetKind::nvptx && !hasRoles(product)) options.schedule.warps = 8;
  return options;
}

CompileOptions Emitter::passOptions() {
  constexpr int kWarps = 4;
  CompileOptions options;
  options.schedule.warps = kWarps;
  return options;
}

TensorId Emitter::classFactor() const {
  for (const TensorId id :
       std::initializer_list<TensorId>{tensor::classFactor, tensor::classNorm, classWeights()})
    if (has(id)) return id;
  return kNoTensor;
}

} // namespace tilewright::lce
