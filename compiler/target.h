#pragma once

#include <cstdint>
#include <string>

#include "compiler/base/status.h"

namespace tilewright {

enum class TargetKind { cpu, nvptx };

/// What code is generated for. Plain data; two equal targets give equal code.
struct Target {
  TargetKind kind = TargetKind::cpu;
  std::string arch;     ///< LLVM's processor name, "znver4", "sm_90a"; or "aarch64", any 64-bit ARM processor
  std::string features; ///< LLVM's feature string, "+avx512f,-amx-tile,…"; empty for nvptx

  /// 80 of "sm_80", 90 of "sm_90a"; 0 of a CPU.
  int capability() const;
  /// Bytes of shared memory that one program can have; 0 where there is none.
  int64_t sharedLimit() const;

  /// Whether its code is for 64-bit ARM: text and objects for other machines, as nothing here loads them.
  bool isAarch64() const { return kind == TargetKind::cpu && arch == "aarch64"; }

  /// One line that says everything, as it enters a cache key.
  std::string str() const;
};

/// The processor this process runs on, with every feature that it has and that the system allows.
Target hostTarget();

/// An x86-64 processor or level by LLVM's name ("znver4", "x86-64-v3"), whether or not this machine is one:
/// those of its features that a kernel's code may use. A user error where LLVM knows no such name.
StatusOr<Target> namedProcessor(const std::string &name);

/// "cpu" is the host, "sm_80" and the like an NVIDIA GPU, "aarch64" a 64-bit ARM processor with NEON, another
/// name that of an x86-64 processor; a user error lists the targets there are.
StatusOr<Target> parseTarget(const std::string &name);

/// Whether a name is one of an NVIDIA GPU's targets, known or not.
bool namesGpu(const std::string &target);

/// The features that code for `needed` may use and that `present` says it has not, with commas between them.
/// Both are as in Target::features.
std::string missingFeatures(const std::string &needed, const std::string &present);

} // namespace tilewright
