#pragma once

#include <cstdint>
#include <string>

namespace tilewright {

/// How a kernel is lowered, as opposed to what it computes; what an autotuner sweeps beside a kernel's block
/// shape.
struct Schedule {
  int64_t contractionStep =
      0;          ///< elements of the contracted axis that are staged at once; 0: the target's choice
  int stages = 0; ///< nvptx: of the copies that feed a product; 0: as many as pay
  int warps = 0;  ///< nvptx: of one program; 0: by its tiles
};

struct CompileOptions {
  Schedule schedule;
  bool tf32 = false; ///< nvptx: products of fp32 operands may round them to TF32
  int optLevel = 2;  ///< LLVM's code generation level, 0 to 3

  /// Canonical text, as it enters a cache key.
  std::string str() const;
};

} // namespace tilewright
