#pragma once

#include <memory>

#include "mlir/Pass/Pass.h"

namespace tilewright::cpu {

#define GEN_PASS_DECL
#include "compiler/cpu/passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/cpu/passes.h.inc"

} // namespace tilewright::cpu
