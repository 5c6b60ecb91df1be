#pragma once

#include "compiler/nvptx/tile_gpu/layouts.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::nvptx {

/// The accesses of memory that a kernel writes, since all threads last met at a barrier.
class AccessOrder {
public:
  explicit AccessOrder(const Layouts &layouts) : layouts(layouts) {}

  /// Whether a thread may touch by `access` what another thread has touched since: they must meet first.
  bool conflicts(mlir::Operation *access) const;
  void add(mlir::Operation *access) { accesses.push_back(access); }
  void add(const AccessOrder &others) { accesses.append(others.accesses); }
  void clear() { accesses.clear(); }

  /// Whether a thread may touch in one iteration what another thread touches in the next.
  bool iterationsConflict(mlir::scf::ForOp loop) const;

private:
  /// Whether each thread touches in `b` the elements that it, and no other thread, touches in `a`.
  bool touchSameElements(mlir::Operation *a, mlir::Operation *b) const;

  const Layouts &layouts;
  llvm::SmallVector<mlir::Operation *> accesses;
};

} // namespace tilewright::nvptx
