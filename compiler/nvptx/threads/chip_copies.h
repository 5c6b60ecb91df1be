#pragma once

#include "compiler/nvptx/threads/lowering.h"

namespace tilewright::nvptx {

/// Loads of vectors that are stored on chip and nothing else: they are copied there while the threads do
/// something else.
class ChipCopies {
public:
  explicit ChipCopies(Lowering &lowering);

  /// Of such loads, and of the stores of what they load.
  bool contains(mlir::Operation *op) const { return copies.contains(op); }
  /// Nobody waits for a copy before it is looked at.
  void start(mlir::Operation *load);
  /// Waits before a loop, or a load by itself, that looks at what was copied.
  void awaitBefore(mlir::Operation *op);

private:
  Lowering &lowering;
  llvm::SmallPtrSet<mlir::Operation *, 4> copies;
  llvm::SmallPtrSet<void *, 4> copied; ///< places on chip
};

} // namespace tilewright::nvptx
