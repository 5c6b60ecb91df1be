#pragma once

#include <cstdint>
#include <string>

#include "compiler/base/status.h"

namespace tilewright {

enum class TargetKind { cpu, nvptx };

/// What code is generated for. Plain data; two equal targets give equal code.
struct Target {
  TargetKind kind = TargetKind::cpu;
  std::string arch;     ///< LLVM's processor name: "znver4", "sm_90a"
  std::string features; ///< LLVM's feature string, "+avx512f,-amx-tile,…"; empty for nvptx

  /// 80 of "sm_80", 90 of "sm_90a"; 0 of a CPU.
  int capability() const;
  /// Bytes of shared memory that one program can have; 0 where there is none.
  int64_t sharedLimit() const;

  /// One line that says everything, as it enters a cache key.
  std::string str() const;
};

/// The processor this process runs on, with every feature it has.
Target hostTarget();

/// "cpu" is the host, "sm_80" and the like an NVIDIA GPU; a user error lists the targets there are.
StatusOr<Target> parseTarget(const std::string &name);

} // namespace tilewright
