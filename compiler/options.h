#pragma once

#include <cstdint>
#include <string>

namespace tilewright {

/// How a kernel is lowered, as opposed to what it computes; what an autotuner sweeps beside a kernel's block
/// shape.
struct Schedule {
  int64_t contractionStep = 256; ///< elements of the contracted axis that are staged at once
};

struct CompileOptions {
  Schedule schedule;
  int optLevel = 2; ///< LLVM's code generation level, 0 to 3

  /// Canonical text, as it enters a cache key.
  std::string str() const;
};

} // namespace tilewright
