#include "tools/contest.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "compiler/base/elapsed.h"

namespace tilewright {
namespace {

constexpr auto kRest = std::chrono::milliseconds(60);
constexpr int kFewestRounds = 3, kMostRounds = 15;

} // namespace

double medianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

StatusOr<double> wallMilliseconds(const std::function<Status()> &work) {
  const auto start = std::chrono::steady_clock::now();
  TW_RETURN_IF_ERROR(work());
  return millisecondsSince(start);
}

StatusOr<ContestResult> contest(const std::vector<Contestant> &contestants, double seconds) {
  std::vector<std::vector<double>> times(contestants.size());
  double roundMilliseconds = 0;
  int rounds = kFewestRounds;
  for (int round = -1; round < rounds; ++round) {
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      std::this_thread::sleep_for(kRest);
      TW_ASSIGN_OR_RETURN(const double milliseconds, contestants[i].milliseconds());
      if (round >= 0)
        times[i].push_back(milliseconds);
      else
        roundMilliseconds += milliseconds;
    }
    if (round < 0)
      rounds = static_cast<int>(
          std::clamp<double>(1000 * seconds / roundMilliseconds, kFewestRounds, kMostRounds));
  }
  ContestResult result{rounds, {}};
  for (const std::vector<double> &of : times)
    result.median.push_back(medianOf(of));
  return result;
}

} // namespace tilewright
