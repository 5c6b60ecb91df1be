#pragma once

#include <string>

#include "runtime/runtime.h"
#include "tools/bench/random_problem.h"
#include "tools/cli/number_type.h"

namespace tilewright {

/// Milliseconds of one call: until it returns, and until its results are there.
struct CallTime {
  double returned = 0, done = 0;
};

/// What a process waits for before its first results.
struct FirstCalls {
  double open = 0; ///< milliseconds: the device, on a GPU with its context; and the bundles
  CallTime first, second;
  CallTime later; ///< medians
  RuntimeCounters counters;
};

/// Opens a runtime and makes the problem's training call (loss, lse, dX and dW) a number of times. The
/// tensors are on the device before the first call. The result is compared with float64.
StatusOr<FirstCalls> firstCalls(const LinearProblem &problem, const NumberType &type,
                                const Environment &environment, const std::string &target);

} // namespace tilewright
