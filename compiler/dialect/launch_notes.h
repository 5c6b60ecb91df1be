#pragma once

#include <cstdint>
#include <vector>

#include "compiler/artifact.h"

namespace mlir {
class Operation;
} // namespace mlir

namespace tilewright {

/// What a lowering says of the function that it makes of a kernel: for the launch, as an Artifact's fields of
/// the same names, and for the code generator.
struct LaunchNotes {
  int64_t scratchBytes = 0;
  int threads = 0;
  int64_t sharedBytes = 0;
  std::vector<TensorMap> tensorMaps;
  int clusterCtas = 1;
  bool persistent = false;
  bool startsEarly = false;
  bool ranksClusters = false;
  bool hasProduct = false;     ///< nvptx: it has accumulators, see emitPtx
  bool keepsRegisters = false; ///< nvptx: more CTAs on a multiprocessor would make its threads spill

  /// As attributes of the function. Fields with their initial values are left out.
  void write(mlir::Operation *function) const;
  static LaunchNotes of(mlir::Operation *function);
};

} // namespace tilewright
