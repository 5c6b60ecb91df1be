#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/base/status.h"

namespace tilewright {

/// Something to be timed beside others.
struct Contestant {
  std::string name;
  std::function<StatusOr<double>()> milliseconds; ///< does the work once
};

struct ContestResult {
  int rounds = 0;
  std::vector<double> median; ///< milliseconds, in the order of the contestants
};

/// Times everyone in turn, round after round, so that a machine that slows down slows all of them, for about
/// `seconds` (3 rounds at least, 15 at most). One unmeasured round comes first. Before each turn threads of
/// the one before are given time to fall asleep: libraries let theirs spin for a while, which costs whoever
/// comes next.
StatusOr<ContestResult> contest(const std::vector<Contestant> &contestants, double seconds);

double medianOf(std::vector<double> values);

/// Wall time of a call, in milliseconds.
StatusOr<double> wallMilliseconds(const std::function<Status()> &work);

} // namespace tilewright
