#include "autotune/measure.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilewright {
namespace {

bool isStopped(const StopRequest &stop) { return stop && stop(); }

/// Runs that fit a turn.
int runsOf(double milliseconds, const MeasureOptions &options) {
  constexpr double most = 1000;
  return static_cast<int>(
      std::clamp(std::ceil(options.turnMilliseconds / std::max(milliseconds, 1e-6)), 1.0, most));
}

/// Milliseconds of one of `runs` runs.
StatusOr<double> turn(Device &device, Stream stream, const TimedWork &contestant, int runs) {
  if (contestant.prepare) TW_RETURN_IF_ERROR(contestant.prepare());
  TW_ASSIGN_OR_RETURN(const double milliseconds, device.time(stream, [&]() -> Status {
    for (int i = 0; i < runs; ++i)
      TW_RETURN_IF_ERROR(contestant.run());
    return {};
  }));
  return milliseconds / runs;
}

/// One contestant so far.
struct Entry {
  std::vector<double> milliseconds; ///< of each turn
  Status failure;
  bool dropped = false;
};

void dropSlowOnes(std::vector<Entry> &entries, double factor) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const Entry &entry : entries)
    if (entry.failure.ok() && !entry.milliseconds.empty())
      fastest = std::min(fastest, median(entry.milliseconds));
  // The best of its runs, lest one disturbance throw a good contestant out.
  for (Entry &entry : entries)
    if (!entry.milliseconds.empty() &&
        *std::min_element(entry.milliseconds.begin(), entry.milliseconds.end()) > factor * fastest)
      entry.dropped = true;
}

void dropSlowerHalf(std::vector<Entry> &entries, std::size_t survivors) {
  std::vector<Entry *> running;
  for (Entry &entry : entries)
    if (!entry.dropped && !entry.milliseconds.empty()) running.push_back(&entry);
  std::stable_sort(running.begin(), running.end(), [](const Entry *a, const Entry *b) {
    return median(a->milliseconds) < median(b->milliseconds);
  });
  for (std::size_t i = std::max(survivors, (running.size() + 1) / 2); i < running.size(); ++i)
    running[i]->dropped = true;
}

StatusOr<Timing> resultOf(const Entry &entry) {
  TW_RETURN_IF_ERROR(entry.failure);
  if (entry.milliseconds.empty()) return runtimeError("stopped before it was timed");
  return Timing{median(entry.milliseconds), static_cast<int>(entry.milliseconds.size())};
}

} // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Status warmUp(Device &device, Stream stream, const TimedWork &work, const MeasureOptions &options,
              const StopRequest &stop) {
  double before = 0;
  for (int i = 0; i < options.maxWarmUps && !isStopped(stop); ++i) {
    TW_ASSIGN_OR_RETURN(const double now, turn(device, stream, work, i ? runsOf(before, options) : 1));
    if (i > 0 && std::fabs(now - before) <= options.settledWithin * before) return {};
    before = now;
  }
  return {};
}

std::vector<StatusOr<Timing>> race(Device &device, Stream stream, const std::vector<TimedWork> &contestants,
                                   const MeasureOptions &options, const StopRequest &stop) {
  std::vector<Entry> entries(contestants.size());
  for (int round = 0; round < options.repetitions && !isStopped(stop); ++round) {
    for (std::size_t i = 0; i < entries.size() && !isStopped(stop); ++i) {
      const std::size_t next = round % 2 ? entries.size() - 1 - i : i;
      Entry &entry = entries[next];
      if (entry.dropped || !entry.failure.ok()) continue;
      const int runs = round ? runsOf(entry.milliseconds.back(), options) : 1;
      const StatusOr<double> time = turn(device, stream, contestants[next], runs);
      if (time.ok())
        entry.milliseconds.push_back(*time);
      else
        entry.failure = time.status();
    }
    dropSlowOnes(entries, round ? options.dropBeyond : options.hopelessBeyond);
    if (round > 0) dropSlowerHalf(entries, options.survivors);
  }
  std::vector<StatusOr<Timing>> results;
  for (const Entry &entry : entries)
    results.push_back(resultOf(entry));
  return results;
}

} // namespace tilewright
