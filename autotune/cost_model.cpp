#include "autotune/cost_model.h"

#include <algorithm>

namespace tilewright {

void CostModel::prune(std::string reason, Condition condition) {
  rules_.push_back({std::move(reason), std::move(condition)});
}

const std::string *CostModel::exclusion(const Configuration &configuration) const {
  for (const Rule &rule : rules_)
    if (rule.condition(configuration)) return &rule.reason;
  return nullptr;
}

CostModel::Selection CostModel::select(const std::vector<Configuration> &configurations) const {
  Selection selection;
  std::vector<std::pair<double, Configuration>> kept;
  for (const Configuration &configuration : configurations) {
    if (const std::string *reason = exclusion(configuration))
      ++selection.pruned[*reason];
    else
      kept.emplace_back(estimate_ ? estimate_(configuration) : 0, configuration);
  }
  std::stable_sort(kept.begin(), kept.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
  for (auto &[estimate, configuration] : kept)
    selection.kept.push_back(std::move(configuration));
  return selection;
}

std::string CostModel::str() const {
  std::string text;
  for (const Rule &rule : rules_)
    text += rule.reason + "\n";
  return text;
}

} // namespace tilewright
