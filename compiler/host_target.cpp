#include <map>

#include "compiler/base/memory_reserve.h"
#include "compiler/target.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

namespace tilewright {

Target hostTarget() {
  UsesReserve forLlvm;
  // Sorted, because a StringMap's order differs from run to run and the text enters cache keys.
  std::map<std::string, bool> features;
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    features[feature.first().str()] = feature.second;
  Target target{TargetKind::cpu, llvm::sys::getHostCPUName().str(), ""};
  for (const auto &[name, present] : features)
    target.features += (target.features.empty() ? "" : ",") + std::string(present ? "+" : "-") + name;
  return target;
}

} // namespace tilewright
