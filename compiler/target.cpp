#include "compiler/target.h"

#include <cstdlib>
#include <sstream>

namespace tilewright {

/// Those that LLVM knows and that have mma.sync on bf16 and cp.async. PTX for one of them runs on all later
/// chips; but that for sm_90a, which has wgmma too, on compute capability 9.0 alone.
constexpr const char *kNvidiaArchs[] = {"sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a"};

std::string Target::str() const {
  std::string text = (kind == TargetKind::cpu ? "cpu " : "nvptx ") + arch;
  return features.empty() ? text : text + " " + features;
}

int Target::capability() const {
  constexpr std::size_t kDigitsAt = 3; // of "sm_80"
  return kind == TargetKind::nvptx ? std::atoi(arch.c_str() + kDigitsAt) : 0;
}

int64_t Target::sharedLimit() const {
  if (kind != TargetKind::nvptx) return 0;
  if (arch == "sm_90" || arch == "sm_90a") return 227 << 10;
  if (arch == "sm_80" || arch == "sm_87") return 163 << 10;
  return 99 << 10;
}

StatusOr<Target> parseTarget(const std::string &name) {
  if (name == "cpu") return hostTarget();
  if (name == "aarch64") return Target{TargetKind::cpu, name, "+neon"};
  std::string choices = "cpu";
  for (const char *arch : kNvidiaArchs) {
    if (name == arch) return Target{TargetKind::nvptx, name, ""};
    choices += std::string(", ") + arch;
  }
  if (!namesGpu(name))
    if (StatusOr<Target> processor = namedProcessor(name); processor.ok()) return processor;
  return userError("target '" + name + "' is not known; choices: " + choices +
                   ", aarch64, or an x86-64 processor as LLVM names it: x86-64-v3, znver4, …");
}

bool namesGpu(const std::string &target) { return target.rfind("sm_", 0) == 0; }

std::string missingFeatures(const std::string &needed, const std::string &present) {
  const std::string mine = "," + present + ",";
  std::string missing;
  std::stringstream list(needed);
  for (std::string feature; std::getline(list, feature, ',');)
    if (feature[0] == '+' && mine.find(",-" + feature.substr(1) + ",") != std::string::npos)
      missing += (missing.empty() ? "" : ", ") + feature.substr(1);
  return missing;
}

} // namespace tilewright
