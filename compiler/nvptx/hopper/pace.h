#pragma once

#include "compiler/nvptx/ptx/mbarrier.h"
#include "compiler/nvptx/threads/lowering.h"

namespace tilewright::nvptx {

/// How CTAs share a product's operands in the second-level cache, as the kernel's parameters tell:
/// conditions, of which neither holds where both operands are small.
struct OperandSharing {
  OperandSharing(Lowering &lowering, tile::ContractOp product);
  Value byMany; ///< many CTAs of a wave read each line
  /// The left operand is so small that it stays in the cache. Neighbours read a line of the right one, at
  /// about the same time, and nobody does afterwards.
  Value byNeighbours;
};

/// Keeps the CTAs of a persistent grid in step, so that what one reads is still in the second-level cache
/// when the others come to it. Each counts its segments of the contracted axis in global memory, and whoever
/// is ahead of the average waits. Without it CTAs drift apart over a launch, for nothing else holds
/// those back that are a little faster. Where few CTAs share a line, or operands are small and much of them
/// stays in that cache in any case, there is no pace, and no atomic addition to wait for (`OperandSharing`).
///
/// It is no barrier: who has waited for too long goes on alone, so that CTAs which are not there (fewer
/// multiprocessors than the launch expects, programs with nothing to do) cost time once, and nobody hangs.
/// Counts are in a slot that the address of the kernel's output chooses (launches that run at the same time
/// write to different ones), and the last CTA to leave clears it.
class Pace {
public:
  /// At the builder's place, where the kernel's parameters are known. `isKept`: else CTAs go on alone.
  Pace(Lowering &lowering, Value isKept);
  /// The slots, once for a module.
  static void declare(mlir::ModuleOp module);

  /// By one thread, before the stage of a step (i32) of a product is filled.
  void keep(Num step);
  /// By that thread: nobody is to wait for this CTA any more.
  void leave();

private:
  Emitter &e;
  Value isKept; ///< i1
  Num slot;     ///< i64: address
  Num ctas;     ///< i32
  Variable due; ///< i32: segments of all CTAs that there have to be before this one goes on
};

} // namespace tilewright::nvptx
