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

/// How far the repetitions of a measurement were apart, and how fast the device ran; 0: not known.
struct Spread {
  double least = 0, most = 0; ///< milliseconds
  double clockMegahertz = 0;  ///< median
};

/// A configuration that computed the right result.
struct MeasuredConfiguration {
  Configuration configuration;
  double milliseconds = 0; ///< median
  int repetitions = 0;
  int64_t workspaceBytes = 0;
  Spread spread = {};
  std::string otherFields = {}; ///< see TuningRecord::otherFields
};

/// How fast a part of the operation is, run alone; its result was right.
struct MeasuredPart {
  std::string part;            ///< the search step's name
  Configuration configuration; ///< values of the step's parameters
  double milliseconds = 0;     ///< median
  int repetitions = 0;
  Spread spread = {};
  std::string otherFields = {}; ///< see TuningRecord::otherFields
};

/// Those that no other one beats in both time and workspace, by rising time.
std::vector<MeasuredConfiguration> frontier(std::vector<MeasuredConfiguration> configurations);

/// What one search found out for a key.
struct TuningRecord {
  TuningKey key;
  std::string deviceName;     ///< as a person reads it
  std::string compiler;       ///< compilerVersion() of the kernels that were timed
  bool complete = false;      ///< the search was not interrupted
  int64_t limit = 0;          ///< configurations that were to be tried
  int64_t tried = 0;          ///< configurations that were checked
  int64_t workspaceLimit = 0; ///< bytes that no configuration was to exceed; 0: no limit

  MeasuredConfiguration heuristic; ///< timed in turn with the winners; 0 repetitions when it failed
  /// The frontier, timed in turn. The untuned configuration counts by its best turn.
  std::vector<MeasuredConfiguration> winners;
  std::vector<MeasuredConfiguration> measured; ///< the others that were timed as a whole
  std::vector<MeasuredPart> parts;             ///< part by part, the fastest first

  /// Fields that this version does not know, as the text of a JSON object, so that they are still there when
  /// the file is written again; empty when there are none.
  std::string otherFields;
};

/// The most workspace that a call under a limit may use, so that limits compare: the limit, or the largest
/// number where there is none (0).
int64_t mostWorkspace(int64_t workspaceLimit);

/// What the record offers to a call with this workspace limit (0: none): the fastest winner of those that
/// fit. Null where the planner knows better:
/// - The search was not allowed as much workspace as the call is. It says nothing about what it did not see.
/// - No winner fits, or only winners that are slower than the untuned configuration, which was timed in turn
///   with them. The search kept these because they are small. It did not look for the best under this limit.
const MeasuredConfiguration *chooseWinner(const TuningRecord &record, int64_t workspaceLimit,
                                          const std::function<bool(const MeasuredConfiguration &)> &fits);

/// The content of a tuning file.
struct TuningFile {
  std::vector<TuningRecord> records;
  std::string otherFields; ///< of the file; see TuningRecord::otherFields
  std::vector<std::string>
      problems; ///< one for each record that is left out: what is wrong with it, and where
};

/// One readable JSON text.
std::string encodeTuningFile(const TuningFile &file);

/// Reads what encodeTuningFile writes, now or since version 2, from anyone: checks version, depth, size,
/// types and ranges. A user error says why the text is no tuning file. A record that is wrong is left out.
/// Names and values of configurations are their operation's to check.
StatusOr<TuningFile> decodeTuningFile(const std::string &text);

/// Longer texts are not records.
constexpr std::size_t kMaxTuningFileBytes = std::size_t(16) << 20;

} // namespace tilewright
