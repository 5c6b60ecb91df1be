#pragma once

#include <sstream>
#include <string>

#include "compiler/compile.h"

namespace tilewright::test {

/// A processor that code is compiled for, and what this one must have to run it.
struct Processor {
  const char *name, *arch, *features;
};

inline constexpr Processor kSse2 = {"Sse2", "x86-64", ""};
inline constexpr Processor kAvx2 = {"Avx2", "x86-64-v3", "+avx2,+fma,+f16c"};
inline constexpr Processor kAvx512 = {"Avx512", "x86-64-v4",
                                      "+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512cd"};

inline bool canRun(const Processor &processor) {
  const std::string mine = "," + hostTarget().features + ",";
  std::stringstream features(processor.features);
  for (std::string feature; std::getline(features, feature, ',');)
    if (mine.find("," + feature + ",") == std::string::npos) return false;
  return true;
}

} // namespace tilewright::test
