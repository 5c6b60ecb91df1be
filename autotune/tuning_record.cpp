#include "autotune/tuning_record.h"

#include <algorithm>
#include <limits>
#include <map>

#include "compiler/base/hash.h"

namespace tilewright {

std::string TuningKey::str() const {
  // By name, since programs that rewrite JSON may sort it.
  std::map<std::string, ParameterValue> sorted(problem.all().begin(), problem.all().end());
  std::string text = joinFields({device, operation});
  for (const auto &[name, value] : sorted)
    text += joinFields({name, std::holds_alternative<int64_t>(value) ? "integer" : "text", valueText(value)});
  return text;
}

int64_t sizeBucket(int64_t size) {
  constexpr int64_t largest = int64_t(1) << 62;
  int64_t bucket = 1;
  while (bucket < size && bucket < largest)
    bucket *= 2;
  return bucket;
}

std::vector<MeasuredConfiguration> frontier(std::vector<MeasuredConfiguration> configurations) {
  std::stable_sort(configurations.begin(), configurations.end(), [](const auto &a, const auto &b) {
    return a.milliseconds != b.milliseconds ? a.milliseconds < b.milliseconds
                                            : a.workspaceBytes < b.workspaceBytes;
  });
  std::vector<MeasuredConfiguration> best;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (MeasuredConfiguration &candidate : configurations)
    if (candidate.workspaceBytes < least) {
      least = candidate.workspaceBytes;
      best.push_back(std::move(candidate));
    }
  return best;
}

int64_t mostWorkspace(int64_t workspaceLimit) {
  return workspaceLimit > 0 ? workspaceLimit : std::numeric_limits<int64_t>::max();
}

const MeasuredConfiguration *chooseWinner(const TuningRecord &record, int64_t workspaceLimit,
                                          const std::function<bool(const MeasuredConfiguration &)> &fits) {
  if (mostWorkspace(record.workspaceLimit) < mostWorkspace(workspaceLimit)) return nullptr;
  const auto winner = std::find_if(record.winners.begin(), record.winners.end(), fits);
  if (winner == record.winners.end()) return nullptr;
  const bool isSlower =
      record.heuristic.repetitions > 0 && winner->milliseconds > record.heuristic.milliseconds;
  return isSlower ? nullptr : &*winner;
}

} // namespace tilewright
