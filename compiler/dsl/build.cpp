#include "compiler/dsl/build.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"

#include "compiler/dsl/impl.h"

using namespace mlir;

namespace tilewright {

static void annotate(KernelBuilder::Impl &impl) {
  SmallVector<Attribute> grid;
  for (const GridAxis &axis : impl.grid)
    grid.push_back(impl.builder.getDenseI64ArrayAttr({axis.parameter, axis.dim, axis.block}));
  impl.function->setAttr(tile::kKernelAttr, impl.builder.getUnitAttr());
  impl.function->setAttr(tile::kGridAttr, impl.builder.getArrayAttr(grid));
}

// What passes the DSL's own checks is valid IR; if not, the verifier knows more than the kernel's author.
static Status verifyModule(KernelBuilder::Impl &impl) {
  std::string messages;
  ScopedDiagnosticHandler capture(impl.builder.getContext(), [&](Diagnostic &diagnostic) {
    messages += (messages.empty() ? "" : "; ") + diagnostic.str();
    return success();
  });
  if (succeeded(verify(*impl.module))) return {};
  return internalError("kernel '" + impl.kernelName + "': the DSL made IR that is not valid: " + messages);
}

StatusOr<OwningOpRef<ModuleOp>> buildKernel(const Kernel &kernel, MLIRContext &context) {
  context.loadDialect<tile::TileDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                      func::FuncDialect>();
  if (!isIdentifier(kernel.name))

    return compileError("expected a kernel's name to be a C identifier, found '" + kernel.name + "'");
  if (!kernel.body) return compileError("kernel '" + kernel.name + "': expected a body, found none");
  KernelBuilder::Impl impl(context, kernel.name);
  kernel.body(impl.handle);
  TW_RETURN_IF_ERROR(impl.status);
  impl.create<func::ReturnOp>();
  annotate(impl);
  TW_RETURN_IF_ERROR(verifyModule(impl));
  return std::move(impl.module);
}

std::string irText(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

} // namespace tilewright
