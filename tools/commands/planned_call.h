#pragma once

#include <string>

#include "compiler/base/status.h"
#include "compiler/element_type.h"
#include "kernels/lce/plan.h"
#include "kernels/linear_cross_entropy.h"
#include "tools/cli/arguments.h"

namespace tilewright {

/// The tensors of a call that computes loss, lse, dX and dW, laid out as the device's memory would have them.
/// Their data must not be read.
LinearCrossEntropyTensors tensorsWithoutData(const ProblemShape &shape, ElementType element);

/// What a call would be done with on a device, without a limit on the workspace.
struct PlannedCall {
  lce::Config config;
  std::string scheme; ///< the mathematics, for people
  int64_t workspaceBytes = 0;
  bool tuned = false; ///< a tuning record says so, else the planner
};

/// The records are those in the cache folder; an empty name: none are used.
StatusOr<PlannedCall> plannedCall(const DeviceInfo &device, const ProblemShape &shape, ElementType element,
                                  const std::string &cacheDir);

} // namespace tilewright
