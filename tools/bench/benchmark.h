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
  std::function<Status()> work; ///< on a GPU it only enqueues
};

/// How many milliseconds it takes to do some work: `Device::time`, or a test's own clock.
using Stopwatch = std::function<StatusOr<double>(const std::function<Status()> &work)>;

/// How long a benchmark takes, and how long a turn of one case is.
struct BenchmarkMethod {
  double seconds = 0; ///< of the whole benchmark, about
  double turnSeconds =
      0; ///< 0: a turn is one run. Else the case runs back to back, and only the second half counts

  /// What suits the device. On a CPU a turn is one run. A GPU at its power limit needs about a second under
  /// load until its clock has settled, so each case has three turns of up to 1.7 s.
  static BenchmarkMethod of(const Device &device, double seconds, std::size_t cases);
};

struct BenchmarkResult {
  std::vector<double> median; ///< milliseconds, in the order of the cases
  int rounds = 0;
  double turnSeconds = 0;

  std::string method() const; ///< in words
};

/// Times all cases in turn, round after round, so that a machine that slows down slows all of them.
///
/// One run of each comes first and does not count. With turns of one run there are 3 to 15 rounds. With
/// longer turns there are 2, after one that does not count: a GPU's power swings for seconds after idle time.
/// In such a turn the host waits six times for what was enqueued, and otherwise enqueues without waiting, as
/// training does.
///
/// Before each turn the threads of the turn before are given time to fall asleep: libraries let theirs spin
/// for a while, which would slow down the next case.
StatusOr<BenchmarkResult> benchmark(const Stopwatch &stopwatch, const std::vector<BenchmarkCase> &cases,
                                    const BenchmarkMethod &method);
/// On a device, by its own clock and for about so many seconds.
StatusOr<BenchmarkResult> benchmark(Device &device, const std::vector<BenchmarkCase> &cases, double seconds);

double medianOf(std::vector<double> values);

/// Wall time of a call, in milliseconds.
StatusOr<double> wallMilliseconds(const std::function<Status()> &work);

} // namespace tilewright
