#include <map>

#include "compiler/amx_permission.h"
#include "compiler/base/memory_reserve.h"
#include "compiler/cpuid_target.h"
#include "compiler/target.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

namespace tilewright {
namespace {

/// Sorted, because LLVM's order differs from run to run and the text enters cache keys.
using Features = std::map<std::string, bool>;

Target processor(std::string arch, const Features &features) {
  Target target{TargetKind::cpu, std::move(arch), ""};
  for (const auto &[name, present] : features)
    target.features += (target.features.empty() ? "" : ",") + std::string(present ? "+" : "-") + name;
  return target;
}

} // namespace

/// LLVM guesses the name of a processor that it does not know, as virtual machines show them. Code has what
/// the features say; the name orders instructions alone.
Target hostTarget() {
  UsesReserve forLlvm;
  Features features;
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    features[feature.first().str()] =
        feature.second && (!feature.first().starts_with("amx-") || amxPermission() == AmxPermission::granted);
  return processor(llvm::sys::getHostCPUName().str(), features);
}

StatusOr<Target> namedProcessor(const std::string &name) {
  UsesReserve forLlvm;
  llvm::SmallVector<llvm::StringRef> names, ofName;
  llvm::X86::fillValidCPUArchList(names, /*Only64Bit=*/true);
  if (!llvm::is_contained(names, name)) return userError("LLVM knows no x86-64 processor '" + name + "'");
  llvm::X86::getFeaturesForCPU(name, ofName);
  llvm::StringMap<bool> implied;
  for (llvm::StringRef feature : ofName) {
    implied[feature] = true;
    llvm::X86::updateImpliedFeatures(feature, true, implied);
  }
  Features features;
  for (const auto &feature : implied)
    if (feature.second && mayBeInKernels(feature.first().str())) features[feature.first().str()] = true;
  return processor(name, features);
}

} // namespace tilewright
