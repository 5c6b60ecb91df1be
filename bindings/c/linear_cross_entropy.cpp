#include "bindings/c/linear_cross_entropy.h"

#include "bindings/c/prepared_handle.h"

struct tw_linear_cross_entropy : tilewright::c::PreparedHandle<tilewright::PreparedLinearCrossEntropy,
                                                               tilewright::LinearCrossEntropyTensors> {};

namespace tilewright::c {

Status readTensors(const tw_linear_cross_entropy_tensors *given, DevicePlace place, Use use,
                   LinearCrossEntropyTensors &t) {
  TW_RETURN_IF_ERROR(checkStruct(given, "tensors"));
  const Argument arguments[] = {
      {given->hidden, "hidden", 2, &t.hidden},
      {given->weight, "weight", 2, &t.weight},
      {given->label, "label", 1, &t.label},
      {given->bias, "bias", 1, &t.bias},
      {given->class_weight, "class_weight", 1, &t.classWeight},
      {given->grad_output, "grad_output", 1, &t.gradOutput},
      {given->grad_lse, "grad_lse", 1, &t.gradLse},
      {given->grad_entropy, "grad_entropy", 1, &t.gradEntropy},
      {given->saved_lse, "saved_lse", 1, &t.savedLse},
      {given->loss, "loss", 1, &t.loss},
      {given->lse, "lse", 1, &t.lse},
      {given->d_hidden, "d_hidden", 2, &t.dHidden},
      {given->d_weight, "d_weight", 2, &t.dWeight},
      {given->d_bias, "d_bias", 1, &t.dBias},
      {given->entropy, "entropy", 1, &t.entropy},
      {given->argmax, "argmax", 1, &t.argmax},
      {given->correct, "correct", 1, &t.correct},
      {given->monitored, "monitored", 1, &t.monitored},
  };
  TW_RETURN_IF_ERROR(readAll(arguments, place, use));
  if (!given->hidden) return expected("hidden");
  if (!given->weight) return expected("weight");
  if (!given->label) return expected("label");
  return {};
}

Status readOptions(const tw_linear_cross_entropy_options *given, LinearCrossEntropyOptions &options) {
  static_assert(static_cast<int>(Variant::automatic) == TW_VARIANT_AUTOMATIC &&
                static_cast<int>(Variant::chunked) == TW_VARIANT_CHUNKED &&
                static_cast<int>(Variant::whole) == TW_VARIANT_WHOLE &&
                static_cast<int>(Variant::recompute) == TW_VARIANT_RECOMPUTE &&
                static_cast<int>(Variant::lossOnly) == TW_VARIANT_LOSS_ONLY);
  if (!given) return {};
  TW_RETURN_IF_ERROR(checkStruct(given, "options"));
  TW_RETURN_IF_ERROR(readLossOptions(*given, options));
  if (given->variant < TW_VARIANT_AUTOMATIC || given->variant > TW_VARIANT_LOSS_ONLY)
    return userError("variant: expected a tw_variant, found " + std::to_string(given->variant));
  if (given->workspace_limit < 0)
    return userError("workspace_limit: expected 0 or more, found " + std::to_string(given->workspace_limit));
  options.variant = static_cast<Variant>(given->variant);
  options.workspaceLimit = given->workspace_limit;
  if (given->has_margin) options.lmcl = Margin{given->margin, given->margin_scale};
  options.tf32 = given->tf32 != 0;
  options.flushSmallProbabilities = given->flush_small_probabilities != 0;
  options.accumulate = given->accumulate != 0;
  if (given->configuration) options.configuration = given->configuration;
  return {};
}

StatusOr<CallPass> readPass(int32_t pass) {
  if (pass != TW_PASS_FUSED && pass != TW_PASS_BACKWARD)
    return userError("pass: expected a tw_pass, found " + std::to_string(pass));
  return pass == TW_PASS_FUSED ? CallPass::fused : CallPass::backward;
}

} // namespace tilewright::c

using namespace tilewright;
using namespace tilewright::c;

tw_code tw_linear_cross_entropy_prepare(tw_runtime *runtime, const tw_linear_cross_entropy_tensors *tensors,
                                        const tw_linear_cross_entropy_options *options, int32_t pass,
                                        tw_linear_cross_entropy **call, tw_error **error) {
  using Prepared = PreparedLinearCrossEntropy;
  const auto make = [&](Runtime &in, const LinearCrossEntropyTensors &given) -> StatusOr<Prepared> {
    TW_ASSIGN_OR_RETURN(const CallPass which, readPass(pass));
    LinearCrossEntropyOptions read;
    TW_RETURN_IF_ERROR(readOptions(options, read));
    return Prepared::prepare(in, given, read, which);
  };
  return prepare(runtime, tensors, call, error, make);
}

void tw_linear_cross_entropy_free(tw_linear_cross_entropy *call) { release(call); }

int64_t tw_linear_cross_entropy_workspace_bytes(const tw_linear_cross_entropy *call) {
  return call ? call->call.workspaceBytes() : 0;
}

const char *tw_linear_cross_entropy_configuration(const tw_linear_cross_entropy *call) {
  return call ? call->call.configuration().c_str() : "";
}

const char *tw_linear_cross_entropy_description(const tw_linear_cross_entropy *call) {
  return call ? call->call.description().c_str() : "";
}

int tw_linear_cross_entropy_fits(const tw_linear_cross_entropy *call,
                                 const tw_linear_cross_entropy_tensors *tensors) {
  return fits(call, tensors);
}

tw_code tw_linear_cross_entropy_run(const tw_linear_cross_entropy *call,
                                    const tw_linear_cross_entropy_tensors *tensors, void *workspace,
                                    int64_t workspace_bytes, tw_call_status *status, void *stream,
                                    tw_error **error) {
  return run(call, tensors, memoryFor(workspace, workspace_bytes, status), stream, error);
}
