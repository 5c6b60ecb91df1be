#pragma once

#include <memory>
#include <string>

#include "bindings/c/failure.h"
#include "bindings/c/tensors.h"
#include "kernels/loss_options.h"
#include "kernels/program/prepared_call.h"
#include "runtime/runtime.h"

/// The objects behind the handles. What refers to the runtime keeps it: handles may be freed in any order.
struct tw_runtime {
  std::shared_ptr<tilewright::Runtime> runtime;
  tilewright::c::DevicePlace place;
  std::string target;
};

struct tw_call_status {
  std::shared_ptr<tilewright::Runtime> runtime;
  tilewright::CallStatus status;
};

namespace tilewright::c {

/// The options that both losses have; `Options` is one of the two structures.
template <typename Options> Status readLossOptions(const Options &given, LossOptions &options) {
  if (given.reduction < TW_REDUCTION_MEAN || given.reduction > TW_REDUCTION_NONE)
    return userError("reduction: expected a tw_reduction, found " + std::to_string(given.reduction));
  if (given.objective < TW_OBJECTIVE_LOG_PROB || given.objective > TW_OBJECTIVE_PROB)
    return userError("objective: expected a tw_objective, found " + std::to_string(given.objective));
  options.reduction = static_cast<Reduction>(given.reduction);
  options.objective = static_cast<Objective>(given.objective);
  options.ignoreIndex = given.ignore_index;
  options.labelSmoothing = given.label_smoothing;
  options.zLoss = given.z_loss;
  options.logitScale = given.logit_scale;
  if (given.softcap != 0) options.softcap = given.softcap;
  return {};
}
static_assert(static_cast<int>(Reduction::mean) == TW_REDUCTION_MEAN &&
              static_cast<int>(Reduction::sum) == TW_REDUCTION_SUM &&
              static_cast<int>(Reduction::none) == TW_REDUCTION_NONE);
static_assert(static_cast<int>(Objective::logProb) == TW_OBJECTIVE_LOG_PROB &&
              static_cast<int>(Objective::prob) == TW_OBJECTIVE_PROB);

inline CallMemory memoryFor(void *workspace, int64_t bytes, const tw_call_status *status) {
  return {workspace, bytes, status ? status->status : CallStatus()};
}

} // namespace tilewright::c
