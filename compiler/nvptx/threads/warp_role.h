#pragma once

#include <memory>

#include "compiler/dialect/tile_ops.h"
#include "compiler/nvptx/ptx/store_target.h"

namespace tilewright::nvptx {

/// Warps that do only a part of what a product takes: those that load its operands, or those that multiply.
class WarpRole {
public:
  virtual ~WarpRole() = default;
  /// Lowers a product and, as far as it is this role's, what follows it in its block.
  virtual mlir::LogicalResult lowerFrom(tile::ContractOp op) = 0;
  /// Where a store goes, if not to memory by the threads themselves.
  virtual std::unique_ptr<StoreTarget> storeTarget(mlir::Operation *) { return nullptr; }
};

} // namespace tilewright::nvptx
