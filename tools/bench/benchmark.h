#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/base/status.h"
#include "runtime/device.h"

namespace tilewright {

/// Something to be timed beside others.
struct BenchmarkCase {
  std::string name;
  std::function<Status()> work; ///< on a GPU enqueued
};

/// How many milliseconds it takes to do some work: `Device::time`, or a test's own clock.
using Stopwatch = std::function<StatusOr<double>(const std::function<Status()> &work)>;

/// How long a benchmark takes, and in what turns.
struct BenchmarkMethod {
  double seconds = 0; ///< in all, about
  /// Of a turn; what runs in the first half of a turn does not count. A few times in a turn one waits for
  /// what was enqueued, else all runs are back to back, as in training. 0: a turn is one run.
  double turnSeconds = 0;

  /// What suits the device: a CPU's turns are single runs. A GPU needs about a second under load until its
  /// clock has settled where the power limit allows, so each works alone for up to 1.7 s, three times; behind
  /// idle time its power swings for seconds, so the first of them does not count.
  static BenchmarkMethod of(const Device &device, double seconds, std::size_t cases);
};

struct BenchmarkResult {
  std::vector<double> median; ///< milliseconds, in the order of the cases
  int rounds = 0;
  double turnSeconds = 0;

  std::string method() const; ///< in words
};

/// Times everyone in turn, round after round, so that a machine that slows down slows all of them (turns of
/// single runs: 3 rounds at least, 15 at most; longer ones: 2, behind one that does not count). One
/// unmeasured run of each comes first. Before each turn threads of the one before are given time to fall
/// asleep: libraries let theirs spin for a while, which costs whoever comes next.
StatusOr<BenchmarkResult> benchmark(const Stopwatch &stopwatch, const std::vector<BenchmarkCase> &cases,
                                    const BenchmarkMethod &method);
/// On a device, by its own clock and for about so many seconds.
StatusOr<BenchmarkResult> benchmark(Device &device, const std::vector<BenchmarkCase> &cases, double seconds);

double medianOf(std::vector<double> values);

/// Wall time of a call, in milliseconds.
StatusOr<double> wallMilliseconds(const std::function<Status()> &work);

} // namespace tilewright
