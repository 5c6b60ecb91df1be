#pragma once

#include <string>

#include "compiler/base/status.h"
#include "compiler/target.h"

namespace mlir {
class ModuleOp;
}

namespace tilewright::nvptx {

enum class Output { llvmIr, ptx };

/// PTX (or LLVM IR) of a module in the LLVM dialect. A compile error carries LLVM's own words.
StatusOr<std::string> emitPtx(mlir::ModuleOp module, const Target &target, int optLevel, Output output);

} // namespace tilewright::nvptx
