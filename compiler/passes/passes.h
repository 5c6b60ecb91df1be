#pragma once

#include "compiler/dialect/tile_ops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/Pass.h"

namespace tilewright {

/// `createGatherToSelect()` and so on for each pass of passes.td, and `registerTilePasses()`.
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/passes/passes.h.inc"

} // namespace tilewright
