#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autotune/measure.h"
#include "autotune/tunable.h"

namespace tilewright {

struct TuningProgress {
  std::string step;           ///< of the search; "untuned" before, "final" at the end
  int tried = 0, planned = 0; ///< configurations checked so far; about how many there will be
  double milliseconds = 0;    ///< of the fastest of what this step times; 0: none yet
  std::string best;           ///< the fastest: this step's parameters
};

struct TunerOptions {
  int limit = 60;             ///< configurations to try, the heuristic one among them
  int64_t workspaceLimit = 0; ///< bytes that no configuration may exceed; 0: no limit
  MeasureOptions measure;
  StopRequest stop;
  std::function<void(const TuningProgress &)> progress;
};

struct TuningOutcome {
  TuningRecord record;
  struct Failure {
    Configuration configuration;
    std::string cause;
  };
  std::vector<Failure> failures;
  std::map<std::string, int> pruned; ///< reason -> configurations that were not tried
};

/// Searches step by step: the values of a step's parameters that the cost model leaves are compiled, each
/// checked against the reference, then timed in turn with the best so far, which the fastest replaces. A step
/// about a part of the operation times the part alone; what is best there is then run as a whole. At the end
/// the frontier and the heuristic configuration are timed once more, in turn. A stop ends the search early;
/// the record then holds what was measured. Fails when no configuration works, naming the cause.
StatusOr<TuningOutcome> tune(Tunable &tunable, const TunerOptions &options);

} // namespace tilewright
