#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/runtime.h"
#include "tools/commands/run_inputs.h"
#include "tools/io/tensors.h"

namespace tilewright {

/// Something that a run computed, and the file it goes to.
struct RunResult {
  std::string name; ///< of the file
  std::vector<int64_t> shape;
  OwnedTensor tensor; ///< f32 or i32
};

struct RunResults {
  std::vector<RunResult> results;
  std::vector<float> monitored; ///< empty, or kMonitoredQuantities
  LossReport report;
};

/// Linear cross entropy of the inputs' hidden states and weight.
StatusOr<RunResults> runLinear(Runtime &runtime, const RunInputs &inputs);

/// The logits of the inputs' hidden states and weight.
StatusOr<RunResults> runEval(Runtime &runtime, const RunInputs &inputs);

/// Cross entropy of the inputs' logits.
StatusOr<RunResults> runOverLogits(Runtime &runtime, const RunInputs &inputs);

} // namespace tilewright
