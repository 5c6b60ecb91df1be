#include "compiler/cpuid_target.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

#include <cpuid.h>

#include "compiler/amx_permission.h"

namespace tilewright {
namespace {

/// One of the instruction sets that code of kernels may use: a bit of CPUID, under LLVM's name.
struct Feature {
  const char *name;
  unsigned leaf, subleaf;
  enum Register { eax, ebx, ecx, edx } where;
  int bit;
  enum Saved { always, ymm, zmm, tiles } saved; ///< registers that the system must save, too
};
constexpr Feature kFeatures[] = {
    {"sse3", 1, 0, Feature::ecx, 0, Feature::always},
    {"pclmul", 1, 0, Feature::ecx, 1, Feature::always},
    {"ssse3", 1, 0, Feature::ecx, 9, Feature::always},
    {"fma", 1, 0, Feature::ecx, 12, Feature::ymm},
    {"cx16", 1, 0, Feature::ecx, 13, Feature::always},
    {"sse4.1", 1, 0, Feature::ecx, 19, Feature::always},
    {"sse4.2", 1, 0, Feature::ecx, 20, Feature::always},
    {"movbe", 1, 0, Feature::ecx, 22, Feature::always},
    {"popcnt", 1, 0, Feature::ecx, 23, Feature::always},
    {"aes", 1, 0, Feature::ecx, 25, Feature::always},
    {"avx", 1, 0, Feature::ecx, 28, Feature::ymm},
    {"f16c", 1, 0, Feature::ecx, 29, Feature::ymm},
    {"bmi", 7, 0, Feature::ebx, 3, Feature::always},
    {"avx2", 7, 0, Feature::ebx, 5, Feature::ymm},
    {"bmi2", 7, 0, Feature::ebx, 8, Feature::always},
    {"avx512f", 7, 0, Feature::ebx, 16, Feature::zmm},
    {"avx512dq", 7, 0, Feature::ebx, 17, Feature::zmm},
    {"adx", 7, 0, Feature::ebx, 19, Feature::always},
    {"avx512ifma", 7, 0, Feature::ebx, 21, Feature::zmm},
    {"avx512cd", 7, 0, Feature::ebx, 28, Feature::zmm},
    {"sha", 7, 0, Feature::ebx, 29, Feature::always},
    {"avx512bw", 7, 0, Feature::ebx, 30, Feature::zmm},
    {"avx512vl", 7, 0, Feature::ebx, 31, Feature::zmm},
    {"avx512vbmi", 7, 0, Feature::ecx, 1, Feature::zmm},
    {"avx512vbmi2", 7, 0, Feature::ecx, 6, Feature::zmm},
    {"gfni", 7, 0, Feature::ecx, 8, Feature::always},
    {"vaes", 7, 0, Feature::ecx, 9, Feature::ymm},
    {"vpclmulqdq", 7, 0, Feature::ecx, 10, Feature::ymm},
    {"avx512vnni", 7, 0, Feature::ecx, 11, Feature::zmm},
    {"avx512bitalg", 7, 0, Feature::ecx, 12, Feature::zmm},
    {"avx512vpopcntdq", 7, 0, Feature::ecx, 14, Feature::zmm},
    {"avx512vp2intersect", 7, 0, Feature::edx, 8, Feature::zmm},
    {"amx-bf16", 7, 0, Feature::edx, 22, Feature::tiles},
    {"avx512fp16", 7, 0, Feature::edx, 23, Feature::zmm},
    {"amx-tile", 7, 0, Feature::edx, 24, Feature::tiles},
    {"amx-int8", 7, 0, Feature::edx, 25, Feature::tiles},
    {"sha512", 7, 1, Feature::eax, 0, Feature::ymm},
    {"avxvnni", 7, 1, Feature::eax, 4, Feature::ymm},
    {"avx512bf16", 7, 1, Feature::eax, 5, Feature::zmm},
    {"amx-fp16", 7, 1, Feature::eax, 21, Feature::tiles},
    {"avxifma", 7, 1, Feature::eax, 23, Feature::ymm},
    {"avxvnniint8", 7, 1, Feature::edx, 4, Feature::ymm},
    {"avxneconvert", 7, 1, Feature::edx, 5, Feature::ymm},
    {"avxvnniint16", 7, 1, Feature::edx, 10, Feature::ymm},
    {"sse4a", 0x80000001, 0, Feature::ecx, 6, Feature::always},
    {"xop", 0x80000001, 0, Feature::ecx, 11, Feature::ymm},
    {"fma4", 0x80000001, 0, Feature::ecx, 16, Feature::ymm},
    {"tbm", 0x80000001, 0, Feature::ecx, 21, Feature::always},
    {"lzcnt", 0x80000001, 0, Feature::ecx, 5, Feature::always},
};

/// Which registers the system saves between threads: the bits of XCR0.
uint64_t savedRegisters() {
  unsigned registers[4] = {};
  constexpr unsigned kHasXsave = 1u << 27;
  if (!__get_cpuid(1, &registers[0], &registers[1], &registers[2], &registers[3]) ||
      !(registers[Feature::ecx] & kHasXsave))
    return 0;
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

bool has(const Feature &feature, uint64_t saved) {
  constexpr uint64_t kNeeded[] = {0, 0x6, 0xe6, 0x60000};
  if (feature.saved == Feature::tiles && amxPermission() != AmxPermission::granted) return false;
  if ((saved & kNeeded[feature.saved]) != kNeeded[feature.saved]) return false;
  unsigned registers[4] = {};
  if (!__get_cpuid_count(feature.leaf, feature.subleaf, &registers[0], &registers[1], &registers[2],
                         &registers[3]))
    return false;
  return registers[feature.where] >> feature.bit & 1;
}

} // namespace

bool mayBeInKernels(const std::string &feature) {
  return std::any_of(std::begin(kFeatures), std::end(kFeatures),
                     [&](const Feature &known) { return known.name == feature; });
}

Target cpuidTarget() {
  const uint64_t saved = savedRegisters();
  std::map<std::string, bool> features;
  for (const Feature &feature : kFeatures)
    features[feature.name] = has(feature, saved);
  Target target{TargetKind::cpu, "host", ""};
  for (const auto &[name, present] : features)
    target.features += (target.features.empty() ? "" : ",") + std::string(present ? "+" : "-") + name;
  return target;
}

} // namespace tilewright
