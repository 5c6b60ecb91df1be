#include "compiler/cpu/emit_object.h"

#include "compiler/diagnostics.h"
#include "compiler/optimise.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

namespace tilewright::cpu {

/// By LLVM's name.
static std::string processorOf(const Target &target) { return target.isAarch64() ? "generic" : target.arch; }

static StatusOr<std::unique_ptr<llvm::TargetMachine>> makeTargetMachine(const Target &target, int optLevel) {
  static const bool initialised = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    return true;
  }();
  (void)initialised;
  std::string error;
  const std::string triple = target.isAarch64() ? "aarch64-unknown-linux-gnu" : llvm::sys::getProcessTriple();
  const llvm::Target *found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found) return compileError("LLVM has no code generator for " + triple + ": " + error);
  auto level = llvm::CodeGenOpt::getLevel(optLevel).value_or(llvm::CodeGenOptLevel::Default);
  std::unique_ptr<llvm::TargetMachine> machine(
      found->createTargetMachine(triple, processorOf(target), target.features, llvm::TargetOptions(),
                                 llvm::Reloc::PIC_, std::nullopt, level));
  if (!machine) return compileError("LLVM cannot generate code for processor '" + target.arch + "'");
  return machine;
}

StatusOr<std::string> emitObject(mlir::ModuleOp module, const Target &target, int optLevel, Output output) {
  mlir::registerBuiltinDialectTranslation(*module.getContext());
  mlir::registerLLVMDialectTranslation(*module.getContext());
  Diagnostics diagnostics(*module.getContext());
  llvm::LLVMContext context;
  diagnostics.listenTo(context);
  std::unique_ptr<llvm::Module> code = mlir::translateModuleToLLVMIR(module, context);
  if (!code) return diagnostics.error("the kernel could not be translated to LLVM IR");
  TW_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine, makeTargetMachine(target, optLevel));
  code->setDataLayout(machine->createDataLayout());
  code->setTargetTriple(machine->getTargetTriple().str());
  for (llvm::Function &function : *code)
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", processorOf(target));
      function.addFnAttr("target-features", target.features);
    }
  optimise(*code, *machine, optLevel);

  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  if (output == Output::llvmIr) {
    code->print(stream, nullptr);
    return std::string(text);
  }
  llvm::legacy::PassManager codegen;
  auto kind =
      output == Output::assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if (machine->addPassesToEmitFile(codegen, stream, nullptr, kind))
    return compileError("LLVM's code generator for '" + target.arch + "' cannot write this kind of file");
  codegen.run(*code);
  if (!diagnostics.errors().empty())
    return diagnostics.error("LLVM's code generator for '" + target.arch + "' refused the kernel");
  return std::string(text);
}

} // namespace tilewright::cpu
