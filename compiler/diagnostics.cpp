#include "compiler/diagnostics.h"

#include <memory>

#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/raw_ostream.h"

#include "compiler/base/log.h"

using namespace mlir;

namespace tilewright {

struct LlvmDiagnostics final : llvm::DiagnosticHandler {
  explicit LlvmDiagnostics(Diagnostics &diagnostics) : diagnostics(diagnostics) {}

  bool handleDiagnostics(const llvm::DiagnosticInfo &info) override {
    std::string message;
    llvm::raw_string_ostream stream(message);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info.print(printer);
    stream.flush();
    if (info.getSeverity() == llvm::DS_Error)
      diagnostics.add(message);
    else
      logDebug("LLVM: " + message);
    return true; // handled: where not, LLVM calls exit(1) after an error
  }

  Diagnostics &diagnostics;
};

Diagnostics::Diagnostics(MLIRContext &context)
    : handler_(&context, [this](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
          add(diagnostic.str());
        else
          logDebug("MLIR: " + diagnostic.str());
        return success();
      }) {}

void Diagnostics::listenTo(llvm::LLVMContext &context) {
  context.setDiagnosticHandler(std::make_unique<LlvmDiagnostics>(*this));
}

Status Diagnostics::error(const std::string &what) const {
  return compileError(errors_.empty() ? what : what + ": " + errors_);
}

void Diagnostics::add(const std::string &message) { errors_ += (errors_.empty() ? "" : "; ") + message; }

} // namespace tilewright
