#include "autotune/measure.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autotune/cache_flush.h"
#include "compiler/base/log.h"

namespace tilewright {
namespace {

bool isStopped(const StopRequest &stop) { return stop && stop(); }

/// Runs of so many milliseconds that fit a turn.
int runsOf(double milliseconds, const MeasureOptions &options) {
  constexpr double most = 1000;
  return static_cast<int>(
      std::clamp(std::ceil(options.turnMilliseconds / std::max(milliseconds, 1e-6)), 1.0, most));
}

/// Milliseconds of one of `runs` runs.
StatusOr<double> turn(Device &device, Stream stream, const TimedWork &work, int runs,
                      const CacheFlush &flush) {
  if (work.prepare) TW_RETURN_IF_ERROR(work.prepare());
  // Back to back where that is possible, so that gaps between launches count once.
  const int together = flush.isNeeded() ? 1 : runs;
  double sum = 0;
  for (int done = 0; done < runs; done += together) {
    if (flush.isNeeded()) TW_RETURN_IF_ERROR(flush.run(device, stream));
    TW_ASSIGN_OR_RETURN(const double milliseconds, device.time(stream, [&]() -> Status {
      for (int i = 0; i < together; ++i)
        TW_RETURN_IF_ERROR(work.run());
      return {};
    }));
    sum += milliseconds;
  }
  return sum / runs;
}

/// One candidate so far.
struct Entry {
  std::vector<double> milliseconds, megahertz; ///< of each turn
  Status failure;
  bool hopeless = false; ///< as far as its first run can tell
  bool dropped = false;

  bool isRunning() const { return !dropped && failure.ok(); }
  bool isTimed() const { return failure.ok() && !milliseconds.empty(); }
  /// Of all turns: a disturbance makes one slower, and must not throw a good candidate out.
  double least() const { return *std::min_element(milliseconds.begin(), milliseconds.end()); }
};

double fastestOf(const std::vector<Entry> &entries) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const Entry &entry : entries)
    if (entry.isTimed()) fastest = std::min(fastest, median(entry.milliseconds));
  return fastest;
}

/// Of a race whose first round has been run.
int roundsOf(const std::vector<Entry> &entries, const MeasureOptions &options) {
  const double rounds = std::ceil(options.raceMilliseconds / std::max(fastestOf(entries), 1e-6));
  return static_cast<int>(std::min<double>(rounds, options.repetitions));
}

/// Sets a mark on those that are slower than the fastest by a factor.
void markSlowOnes(std::vector<Entry> &entries, double factor, bool Entry::*mark) {
  const double fastest = fastestOf(entries);
  for (Entry &entry : entries)
    if (entry.isTimed() && entry.least() > factor * fastest) entry.*mark = true;
}

void dropSlowerHalf(std::vector<Entry> &entries, std::size_t survivors) {
  std::vector<Entry *> running;
  for (Entry &entry : entries)
    if (entry.isRunning() && entry.isTimed()) running.push_back(&entry);
  std::stable_sort(running.begin(), running.end(),
                   [](const Entry *a, const Entry *b) { return a->least() < b->least(); });
  for (std::size_t i = std::max(survivors, (running.size() + 1) / 2); i < running.size(); ++i)
    running[i]->dropped = true;
}

StatusOr<Timing> resultOf(const Entry &entry) {
  TW_RETURN_IF_ERROR(entry.failure);
  if (entry.milliseconds.empty()) return runtimeError("stopped before it was timed");
  const double most = *std::max_element(entry.milliseconds.begin(), entry.milliseconds.end());
  return Timing{median(entry.milliseconds), static_cast<int>(entry.milliseconds.size()),
                Spread{entry.least(), most, median(entry.megahertz)}};
}

/// One that suits all candidates, lest some of them find their data in the caches and others not.
CacheFlush flushFor(Device &device, Stream stream, const std::vector<TimedWork> &candidates) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const TimedWork &candidate : candidates)
    least = std::min(least, candidate.workingSetBytes);
  StatusOr<CacheFlush> flush = CacheFlush::make(device, stream, least);
  if (flush.ok()) return *std::move(flush);
  logWarning("measuring without flushing the device's caches: " + flush.status().message());
  return {};
}

} // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Status warmUp(Device &device, Stream stream, const TimedWork &work, const MeasureOptions &options,
              const StopRequest &stop) {
  double before = 0, sum = 0;
  for (int i = 0; i < options.maxWarmUps && sum < options.raceMilliseconds && !isStopped(stop); ++i) {
    const int runs = i ? runsOf(before, options) : 1;
    TW_ASSIGN_OR_RETURN(const double now, turn(device, stream, work, runs, CacheFlush()));
    if (i > 0 && std::fabs(now - before) <= options.settledWithin * before) return {};
    sum += runs * now;
    before = now;
  }
  return {};
}

std::vector<StatusOr<Timing>> race(Device &device, Stream stream, const std::vector<TimedWork> &candidates,
                                   const MeasureOptions &options, const StopRequest &stop) {
  const CacheFlush flush = flushFor(device, stream, candidates);
  std::vector<Entry> entries(candidates.size());
  int rounds = options.repetitions;
  for (int round = 0; round < rounds && !isStopped(stop); ++round) {
    for (std::size_t i = 0; i < entries.size() && !isStopped(stop); ++i) {
      const std::size_t next = round % 2 ? entries.size() - 1 - i : i;
      Entry &entry = entries[next];
      if (!entry.isRunning()) continue;
      const bool isBrief = round == 0 || (round == 1 && entry.hopeless);
      const int runs = isBrief ? 1 : runsOf(entry.milliseconds.back() + flush.milliseconds(), options);
      const StatusOr<double> time = turn(device, stream, candidates[next], runs, flush);
      if (!time.ok()) {
        entry.failure = time.status();
        continue;
      }
      entry.milliseconds.push_back(*time);
      entry.megahertz.push_back(device.clockMegahertz());
    }
    if (round == 0) {
      rounds = roundsOf(entries, options);
      // A single run says too little to drop anyone, unless it is long.
      const bool isLong = rounds < options.repetitions;
      markSlowOnes(entries, options.hopelessBeyond, isLong ? &Entry::dropped : &Entry::hopeless);
      continue;
    }
    markSlowOnes(entries, options.dropBeyond, &Entry::dropped);
    dropSlowerHalf(entries, options.survivors);
  }
  std::vector<StatusOr<Timing>> results;
  for (const Entry &entry : entries)
    results.push_back(resultOf(entry));
  return results;
}

} // namespace tilewright
