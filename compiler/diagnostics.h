#pragma once

#include <string>

#include "compiler/base/status.h"
#include "mlir/IR/Diagnostics.h"

namespace llvm {
class LLVMContext;
} // namespace llvm

namespace tilewright {

/// Collects the errors that MLIR and LLVM report while it lives; remarks and warnings go to the log, at level
/// debug. Without it they go to stderr, and LLVM ends the process after an error.
class Diagnostics {
public:
  explicit Diagnostics(mlir::MLIRContext &context);
  /// LLVM's errors too. The context must not outlive this object.
  void listenTo(llvm::LLVMContext &context);

  /// Separated by "; "; empty when there was none.
  const std::string &errors() const { return errors_; }
  /// A compile error: `what`, and the errors that were reported.
  Status error(const std::string &what) const;

private:
  void add(const std::string &message);
  friend struct LlvmDiagnostics;

  std::string errors_;
  mlir::ScopedDiagnosticHandler handler_;
};

} // namespace tilewright
