#include "compiler/target.h"

#include <map>

#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

namespace tilewright {

std::string Target::str() const {
  std::string text = (kind == TargetKind::cpu ? "cpu " : "nvptx ") + arch;
  return features.empty() ? text : text + " " + features;
}

Target hostTarget() {
  // Sorted, because a StringMap's order differs from run to run and the text enters cache keys.
  std::map<std::string, bool> features;
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    features[feature.first().str()] = feature.second;
  Target target{TargetKind::cpu, llvm::sys::getHostCPUName().str(), ""};
  for (const auto &[name, present] : features)
    target.features += (target.features.empty() ? "" : ",") + std::string(present ? "+" : "-") + name;
  return target;
}

StatusOr<Target> parseTarget(const std::string &name) {
  if (name == "cpu") return hostTarget();
  return userError("target '" + name + "' is not known; choices: cpu");
}

} // namespace tilewright
