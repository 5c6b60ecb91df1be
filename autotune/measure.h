#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "autotune/tuning_record.h"
#include "compiler/base/status.h"
#include "runtime/device.h"

namespace tilewright {

struct MeasureOptions {
  int repetitions = 5; ///< turns of those that are not dropped
  /// A turn repeats the work, back to back, for about this long, once at least: short work alone is over
  /// before a clock has settled. The first turn is one run.
  double turnMilliseconds = 60;
  double settledWithin = 0.03; ///< warm-up ends when a turn is as fast as the one before, up to this share
  int maxWarmUps = 10;
  /// All turns of a candidate take about this long together: long work has fewer of them, and who is hopeless
  /// after the first has no other. A warm-up ends after this time.
  double raceMilliseconds = 800;
  /// Slower than the fastest by this factor in its first run: its second turn, too, is one run.
  double hopelessBeyond = 1.3;
  /// Who is slower by this factor in all turns of two rounds or more drops out.
  double dropBeyond = 1.1;
  /// The slower half drops out after each round but the first, but these many stay.
  std::size_t survivors = 3;
};

/// Says whether to stop as soon as possible; asked before each turn and each compilation, of which several
/// run at a time: by any thread.
using StopRequest = std::function<bool()>;

struct Timing {
  double milliseconds = 0; ///< of one run: the median of the turns' means
  int repetitions = 0;     ///< turns
  Spread spread;           ///< of the turns
};

/// The middle one, or the mean of the two in the middle; of at least one value.
double median(std::vector<double> values);

/// Work to be timed.
struct TimedWork {
  std::function<Status()> run;     ///< enqueues it once
  std::function<Status()> prepare; ///< enqueues what comes before a turn, untimed; may be null
  int64_t workingSetBytes = 0;     ///< that a run reads and writes, at least; 0: not known
};

/// Runs the work until the device's clock has settled.
Status warmUp(Device &device, Stream stream, const TimedWork &work, const MeasureOptions &options,
              const StopRequest &stop);

/// Times the candidates in turn, round after round, in alternating order, so that a device that slows down
/// slows all of them. Before each run the device's caches are flushed, untimed, unless every candidate's
/// working set exceeds them. In the order of the candidates: the timing, or why there is none (its own
/// failure, or a stop before its first run).
std::vector<StatusOr<Timing>> race(Device &device, Stream stream, const std::vector<TimedWork> &candidates,
                                   const MeasureOptions &options, const StopRequest &stop);

} // namespace tilewright
