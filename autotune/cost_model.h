#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "autotune/search_space.h"

namespace tilewright {

/// What is known without running anything: configurations that cannot win are not tried, and the promising
/// ones are tried first.
class CostModel {
public:
  using Condition = std::function<bool(const Configuration &)>;
  using Estimate = std::function<double(const Configuration &)>;

  /// A rule: configurations for which `condition` holds are not tried, because of `reason`.
  void prune(std::string reason, Condition condition);
  /// A number that grows with the time a configuration takes; its unit does not matter. Without it all are
  /// equal.
  void setEstimate(Estimate estimate) { estimate_ = std::move(estimate); }

  /// The reason of the first rule that excludes a configuration; null when none does.
  const std::string *exclusion(const Configuration &configuration) const;

  struct Selection {
    std::vector<Configuration> kept;   ///< by rising estimate; equal ones in the order given
    std::map<std::string, int> pruned; ///< reason -> how many
  };
  Selection select(const std::vector<Configuration> &configurations) const;

  /// The rules' reasons, a line each.
  std::string str() const;

private:
  struct Rule {
    std::string reason;
    Condition condition;
  };
  std::vector<Rule> rules_;
  Estimate estimate_;
};

} // namespace tilewright
