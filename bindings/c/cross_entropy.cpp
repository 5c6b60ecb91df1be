#include "kernels/cross_entropy.h"

#include "bindings/c/prepared_handle.h"

struct tw_cross_entropy
    : tilewright::c::PreparedHandle<tilewright::PreparedCrossEntropy, tilewright::CrossEntropyTensors> {};

namespace tilewright::c {

static Status readTensors(const tw_cross_entropy_tensors *given, DevicePlace place, Use use,
                          CrossEntropyTensors &t) {
  TW_RETURN_IF_ERROR(checkStruct(given, "tensors"));
  const Argument arguments[] = {
      {given->logits, "logits", 2, &t.logits},
      {given->label, "label", 1, &t.label},
      {given->class_weight, "class_weight", 1, &t.classWeight},
      {given->grad_output, "grad_output", 1, &t.gradOutput},
      {given->grad_lse, "grad_lse", 1, &t.gradLse},
      {given->grad_entropy, "grad_entropy", 1, &t.gradEntropy},
      {given->loss, "loss", 1, &t.loss},
      {given->lse, "lse", 1, &t.lse},
      {given->d_logits, "d_logits", 2, &t.dLogits},
      {given->entropy, "entropy", 1, &t.entropy},
      {given->argmax, "argmax", 1, &t.argmax},
      {given->correct, "correct", 1, &t.correct},
      {given->monitored, "monitored", 1, &t.monitored},
  };
  TW_RETURN_IF_ERROR(readAll(arguments, place, use));
  if (!given->logits) return expected("logits");
  if (!given->label) return expected("label");
  return {};
}

} // namespace tilewright::c

using namespace tilewright;
using namespace tilewright::c;

tw_code tw_cross_entropy_prepare(tw_runtime *runtime, const tw_cross_entropy_tensors *tensors,
                                 const tw_cross_entropy_options *options, tw_cross_entropy **call,
                                 tw_error **error) {
  const auto make = [&](Runtime &in, const CrossEntropyTensors &given) -> StatusOr<PreparedCrossEntropy> {
    CrossEntropyOptions read;
    if (options) {
      TW_RETURN_IF_ERROR(checkStruct(options, "options"));
      TW_RETURN_IF_ERROR(readLossOptions(*options, read));
    }
    return PreparedCrossEntropy::prepare(in, given, read);
  };
  return prepare(runtime, tensors, call, error, make);
}

void tw_cross_entropy_free(tw_cross_entropy *call) { release(call); }

int64_t tw_cross_entropy_workspace_bytes(const tw_cross_entropy *call) {
  return call ? call->call.workspaceBytes() : 0;
}

const char *tw_cross_entropy_description(const tw_cross_entropy *call) {
  return call ? call->call.description().c_str() : "";
}

int tw_cross_entropy_fits(const tw_cross_entropy *call, const tw_cross_entropy_tensors *tensors) {
  return fits(call, tensors);
}

tw_code tw_cross_entropy_run(const tw_cross_entropy *call, const tw_cross_entropy_tensors *tensors,
                             void *workspace, int64_t workspace_bytes, tw_call_status *status, void *stream,
                             tw_error **error) {
  return run(call, tensors, memoryFor(workspace, workspace_bytes, status), stream, error);
}
