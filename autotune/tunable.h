#pragma once

#include <string>
#include <vector>

#include "autotune/cost_model.h"
#include "autotune/search_space.h"
#include "autotune/tuning_record.h"
#include "compiler/base/status.h"
#include "runtime/device.h"

namespace tilewright {

/// Something that can be done in any configuration, and timed.
class Workload {
public:
  virtual ~Workload() = default;

  /// Makes the kernels that `run` needs. Any thread may call it; several do, for several configurations.
  virtual Status compile(const Configuration &) { return {}; }
  /// Does it once and compares every result with the reference; says what differs.
  virtual Status check(const Configuration &configuration) = 0;
  /// Enqueues what must come before `run`, and is not timed. Runs of one configuration may follow it.
  virtual Status prepare(const Configuration &) { return {}; }
  /// Enqueues it once.
  virtual Status run(const Configuration &configuration) = 0;
  /// Bytes that a run reads and writes, at least; 0: not known. Where they exceed the device's caches, these
  /// need not be flushed between runs.
  virtual int64_t workingSetBytes() const { return 0; }
};

/// Parameters that are searched together while the others keep the best values found so far.
struct SearchStep {
  std::string name; ///< as progress and records show it
  std::vector<std::string> parameters;
  /// What is checked and timed: the part of the operation that these parameters are about, where it can be
  /// done alone; null: all of the operation. A part's time does not depend on other parts' parameters. Steps
  /// with a part come first.
  Workload *part = nullptr;
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
  virtual std::vector<SearchStep> steps() = 0;
  /// What would be used without tuning; the search begins there.
  virtual Configuration heuristic() const = 0;

  /// Device memory beside inputs and outputs.
  virtual int64_t workspaceBytes(const Configuration &configuration) const = 0;
  /// All of the operation.
  virtual Workload &whole() = 0;
};

} // namespace tilewright
