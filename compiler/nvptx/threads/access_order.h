#pragma once

#include "compiler/nvptx/ptx/emitter.h"
#include "compiler/nvptx/tile_gpu/layouts.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::nvptx {

/// When the threads of a team meet: it knows the accesses, since they last did, of memory that a kernel
/// writes.
class AccessOrder {
public:
  AccessOrder(Emitter &e, const Layouts &layouts) : e(e), layouts(layouts) {}

  /// The threads meet.
  void barrier();
  /// They have met in another way.
  void clear() { accesses.clear(); }
  /// Ahead of an access: they meet where a thread may touch by it what another one has touched since.
  void before(mlir::Operation *access);
  /// Whether a thread may touch in one iteration what another thread touches in the next.
  bool iterationsConflict(mlir::scf::ForOp loop) const;

  SmallVector<mlir::Operation *> known() const { return accesses; }
  /// Accesses that may have happened as well.
  void add(llvm::ArrayRef<mlir::Operation *> others) { accesses.append(others.begin(), others.end()); }

private:
  bool conflicts(mlir::Operation *access) const;
  /// Whether each thread touches in `b` the elements that it, and no other thread, touches in `a`.
  bool touchSameElements(mlir::Operation *a, mlir::Operation *b) const;

  Emitter &e;
  const Layouts &layouts;
  SmallVector<mlir::Operation *> accesses;
};

} // namespace tilewright::nvptx
