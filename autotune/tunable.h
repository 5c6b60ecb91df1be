#pragma once

#include <string>
#include <vector>

#include "autotune/cost_model.h"
#include "autotune/search_space.h"
#include "autotune/tuning_record.h"
#include "compiler/base/status.h"
#include "runtime/device.h"

namespace tilewright {

/// Parameters that are searched together while the others keep the best values found so far.
struct SearchStep {
  std::string name; ///< as progress shows it
  std::vector<std::string> parameters;
};

/// An operation on one problem, as the tuner sees it.
class Tunable {
public:
  virtual ~Tunable() = default;

  virtual TuningKey key() const = 0;
  virtual Device &device() const = 0;
  virtual Stream stream() const = 0;

  virtual const SearchSpace &space() const = 0;
  virtual const CostModel &costModel() const = 0;
  virtual std::vector<SearchStep> steps() const = 0;
  /// What would be used without tuning; the search begins there.
  virtual Configuration heuristic() const = 0;

  /// Others to begin at, where parameters depend on each other too much to be searched one after the other.
  virtual std::vector<Configuration> starts() const { return {}; }

  /// Device memory beside inputs and outputs.
  virtual int64_t workspaceBytes(const Configuration &configuration) const = 0;
  /// Runs it once and compares every result with the reference; says what differs.
  virtual Status check(const Configuration &configuration) = 0;
  /// Enqueues it once.
  virtual Status run(const Configuration &configuration) = 0;
};

} // namespace tilewright
