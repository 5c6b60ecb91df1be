#pragma once

#include <string>

#include "compiler/base/status.h"
#include "compiler/target.h"

namespace mlir {
class ModuleOp;
}

namespace tilewright::cpu {

enum class Output { llvmIr, assembly, object };

/// Machine code (or its text) of a module in the LLVM dialect. A compile error carries LLVM's own words.
StatusOr<std::string> emitObject(mlir::ModuleOp module, const Target &target, int optLevel, Output output);

} // namespace tilewright::cpu
