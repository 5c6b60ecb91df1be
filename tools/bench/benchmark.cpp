#include "tools/bench/benchmark.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "compiler/base/elapsed.h"

namespace tilewright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRest = std::chrono::milliseconds(60);
constexpr int kFewestRounds = 3, kMostRounds = 15;
constexpr int kLongRounds = 2, kSettlingRounds = 1; // of long turns; the latter come first and do not count
constexpr double kLongestTurn = 1.7;                // seconds
constexpr int kWaits = 6;                           // of a turn

/// Of one run, of so many that nothing is waited for in between.
StatusOr<double> timeRuns(const Stopwatch &stopwatch, const BenchmarkCase &one, int runs) {
  TW_ASSIGN_OR_RETURN(const double milliseconds, stopwatch([&]() -> Status {
                        for (int i = 0; i < runs; ++i)
                          TW_RETURN_IF_ERROR(one.work());
                        return {};
                      }));
  return milliseconds / runs;
}

/// The times that count: of the turn's second half.
StatusOr<std::vector<double>> takeTurn(const Stopwatch &stopwatch, const BenchmarkCase &one, int runs,
                                       double turnSeconds) {
  std::vector<double> turn;
  const Clock::time_point start = Clock::now();
  do {
    TW_ASSIGN_OR_RETURN(const double milliseconds, timeRuns(stopwatch, one, runs));
    turn.push_back(milliseconds);
  } while (millisecondsSince(start) < 1000 * turnSeconds);
  turn.erase(turn.begin(), turn.begin() + turn.size() / 2);
  return turn;
}

} // namespace

double medianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

StatusOr<double> wallMilliseconds(const std::function<Status()> &work) {
  const auto start = Clock::now();
  TW_RETURN_IF_ERROR(work());
  return millisecondsSince(start);
}

BenchmarkMethod BenchmarkMethod::of(const Device &device, double seconds, std::size_t cases) {
  if (device.target().kind != TargetKind::nvptx) return {seconds, 0};
  return {seconds,
          std::min(kLongestTurn, seconds / ((kSettlingRounds + kLongRounds) * static_cast<double>(cases)))};
}

std::string BenchmarkResult::method() const {
  if (turnSeconds == 0) return fmt::format("medians of {} rounds in turn", rounds);
  return fmt::format(
      "medians of the second halves of {} rounds behind one that does not count, in which each worked "
      "alone for {:.1f} s",
      rounds, turnSeconds);
}

StatusOr<BenchmarkResult> benchmark(const Stopwatch &stopwatch, const std::vector<BenchmarkCase> &cases,
                                    const BenchmarkMethod &method) {
  constexpr double most = 1000;
  double roundMilliseconds = 0;
  std::vector<int> runs;
  for (const BenchmarkCase &one : cases) {
    std::this_thread::sleep_for(kRest);
    TW_ASSIGN_OR_RETURN(const double milliseconds, timeRuns(stopwatch, one, 1));
    roundMilliseconds += milliseconds;
    const double waitMilliseconds = 1000 * method.turnSeconds / kWaits;
    runs.push_back(static_cast<int>(std::clamp(waitMilliseconds / std::max(milliseconds, 1e-3), 1.0, most)));
  }
  BenchmarkResult result{{}, kLongRounds, method.turnSeconds};
  if (method.turnSeconds == 0)
    result.rounds = static_cast<int>(
        std::clamp<double>(1000 * method.seconds / roundMilliseconds, kFewestRounds, kMostRounds));
  std::vector<std::vector<double>> times(cases.size());
  for (int round = method.turnSeconds > 0 ? -kSettlingRounds : 0; round < result.rounds; ++round)
    for (std::size_t i = 0; i < cases.size(); ++i) {
      std::this_thread::sleep_for(kRest);
      TW_ASSIGN_OR_RETURN(const std::vector<double> turn,
                          takeTurn(stopwatch, cases[i], runs[i], method.turnSeconds));
      if (round >= 0) times[i].insert(times[i].end(), turn.begin(), turn.end());
    }
  for (const std::vector<double> &of : times)
    result.median.push_back(medianOf(of));
  return result;
}

StatusOr<BenchmarkResult> benchmark(Device &device, const std::vector<BenchmarkCase> &cases, double seconds) {
  return benchmark([&](const std::function<Status()> &work) { return device.time(nullptr, work); }, cases,
                   BenchmarkMethod::of(device, seconds, cases.size()));
}

} // namespace tilewright
