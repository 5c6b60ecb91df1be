#pragma once

#include <string>

#include "compiler/base/status.h"
#include "compiler/dsl/builder.h"

namespace mlir {
class MLIRContext;
class ModuleOp;
template <typename OpTy> class OwningOpRef;
} // namespace mlir

namespace tilewright {

/// Runs the kernel's body and returns a verified module that holds its function alone. Loads the dialects it
/// needs into `context`. The first misuse of the DSL becomes a compile error that names the kernel and the
/// operation.
StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> buildKernel(const Kernel &kernel, mlir::MLIRContext &context);

/// A module as text.
std::string irText(mlir::ModuleOp module);

} // namespace tilewright
