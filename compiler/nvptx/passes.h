#pragma once

#include <memory>

#include "compiler/nvptx/tile_gpu/tile_gpu.h"
#include "mlir/Pass/Pass.h"

namespace tilewright::nvptx {

#define GEN_PASS_DECL
#include "compiler/nvptx/passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/nvptx/passes.h.inc"

} // namespace tilewright::nvptx
