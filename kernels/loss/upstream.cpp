#include "kernels/loss/dsl_helpers.h"
#include "kernels/loss/kernels.h"

namespace tilewright {

std::string UpstreamSpec::str() const {
  constexpr const char *kinds[] = {"one", "scalar", "rows"};
  return std::string("g=") + kinds[static_cast<int>(kind)] + (mean ? "/valid" : "");
}

UpstreamParameters declareUpstream(KernelBuilder &k, const UpstreamSpec &spec) {
  UpstreamParameters parameters;
  parameters.validCount = k.input("valid_count", ElementType::i32, 1);
  if (spec.kind != Upstream::one) parameters.gradOutput = k.input("grad_output", ElementType::f32, 1);
  return parameters;
}

Tile rowGradient(KernelBuilder &k, const UpstreamSpec &spec, const UpstreamParameters &parameters,
                 const Tile &row) {
  Tile g = number(k, 1);
  if (spec.kind == Upstream::scalar) g = first(k, parameters.gradOutput);
  if (spec.kind == Upstream::rows) g = parameters.gradOutput.gather(row);
  if (spec.mean) g = g / validRows(k, parameters.validCount);
  return g;
}

} // namespace tilewright
