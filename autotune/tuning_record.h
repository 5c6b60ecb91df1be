#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autotune/search_space.h"
#include "compiler/base/status.h"

namespace tilewright {

/// What a tuning result is good for: a device, and a class of problems that share it.
struct TuningKey {
  std::string device; ///< DeviceInfo::fingerprint
  std::string operation;
  NamedValues problem;

  std::string str() const; ///< equal for equal keys only
};

/// Sizes that share a tuning result are bucketed: the smallest power of two that is not below `size`.
int64_t sizeBucket(int64_t size);

/// A configuration that computed the right result.
struct MeasuredConfiguration {
  Configuration configuration;
  double milliseconds = 0; ///< median
  int repetitions = 0;
  int64_t workspaceBytes = 0;
};

/// How fast a part of the operation is, run alone; its result was right.
struct MeasuredPart {
  std::string part;            ///< the search step's name
  Configuration configuration; ///< values of the step's parameters
  double milliseconds = 0;     ///< median
  int repetitions = 0;
};

/// Those that no other one beats in both time and workspace, by rising time.
std::vector<MeasuredConfiguration> frontier(std::vector<MeasuredConfiguration> configurations);

/// What tuning found out for a key.
struct TuningRecord {
  TuningKey key;
  std::string deviceName;     ///< as a person reads it
  std::string compiler;       ///< compilerVersion() of the kernels that were timed
  bool complete = false;      ///< the search was not interrupted
  int64_t limit = 0;          ///< configurations that were to be tried
  int64_t tried = 0;          ///< configurations that were checked
  int64_t workspaceLimit = 0; ///< bytes that no configuration was to exceed; 0: no limit

  MeasuredConfiguration heuristic; ///< timed in turn with the winners; 0 repetitions when it failed
  std::vector<MeasuredConfiguration> winners;  ///< the frontier, timed in turn
  std::vector<MeasuredConfiguration> measured; ///< the others that were timed as a whole
  std::vector<MeasuredPart> parts;             ///< part by part, the fastest first
};

/// The fastest winner of those that fit; null when none does.
const MeasuredConfiguration *chooseWinner(const TuningRecord &record,
                                          const std::function<bool(const MeasuredConfiguration &)> &fits);

/// Records as one readable JSON text.
std::string encodeRecords(const std::vector<TuningRecord> &records);

/// Reads what encodeRecords writes, from anyone: checks version, depth, size, types and ranges. A user error
/// says what is wrong and where. Names and values of configurations are their operation's to check.
StatusOr<std::vector<TuningRecord>> decodeRecords(const std::string &text);

/// Longer texts are not records.
constexpr std::size_t kMaxTuningFileBytes = std::size_t(16) << 20;

} // namespace tilewright
