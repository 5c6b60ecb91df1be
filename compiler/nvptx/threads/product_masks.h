#pragma once

#include "compiler/nvptx/threads/lowering.h"

namespace tilewright::nvptx {

/// Masks of a product that fills the registers, as far as `ops` have them: all of its numbers before any is
/// worked on.
void maskProducts(Lowering &lowering, llvm::ArrayRef<mlir::Operation *> ops);

} // namespace tilewright::nvptx
