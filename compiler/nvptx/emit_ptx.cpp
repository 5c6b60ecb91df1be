#include "compiler/nvptx/emit_ptx.h"

#include <algorithm>

#include "compiler/diagnostics.h"
#include "compiler/dialect/launch_notes.h"
#include "compiler/optimise.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace tilewright::nvptx {

constexpr const char *kTriple = "nvptx64-nvidia-cuda";

/// Hopper's is of the version that has st.async; drivers take it since CUDA 12.1.
static const char *isaOf(const Target &target) {
  return llvm::StringRef(target.arch).starts_with("sm_90") ? "+ptx81" : "";
}

/// Whether a kernel was lowered to one that is described so.
static bool isAny(mlir::ModuleOp module, bool LaunchNotes::*note) {
  return llvm::any_of(module.getOps<mlir::LLVM::LLVMFuncOp>(),
                      [&](auto function) { return LaunchNotes::of(function).*note; });
}

static StatusOr<std::unique_ptr<llvm::TargetMachine>> makeTargetMachine(const Target &target, int optLevel) {
  static const bool initialised = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)initialised;
  std::string error;
  const llvm::Target *found = llvm::TargetRegistry::lookupTarget(kTriple, error);
  if (!found) return compileError(std::string("LLVM has no code generator for ") + kTriple + ": " + error);
  auto level = llvm::CodeGenOpt::getLevel(optLevel).value_or(llvm::CodeGenOptLevel::Default);
  std::unique_ptr<llvm::TargetMachine> machine(found->createTargetMachine(
      kTriple, target.arch, isaOf(target), llvm::TargetOptions(), std::nullopt, std::nullopt, level));
  if (!machine) return compileError("LLVM cannot generate code for '" + target.arch + "'");
  return machine;
}

/// Some of it is for whole warps (ldmatrix, mma.sync), which MLIR cannot say: no call may be made to depend
/// on more conditions than it does.
static void makeInlinePtxConvergent(llvm::Module &module) {
  for (llvm::Function &function : module)
    for (llvm::BasicBlock &block : function)
      for (llvm::Instruction &instruction : block)
        if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction); call && call->isInlineAsm())
          call->setConvergent();
}

/// Parameters passed by value are not copied to the threads' own memory: the copy engine reads tensor maps
/// where the launch put them.
static void keepParametersInPlace(llvm::Function &kernel) {
  llvm::LLVMContext &context = kernel.getContext();
  llvm::Type *i32 = llvm::Type::getInt32Ty(context);
  llvm::SmallVector<llvm::Metadata *> numbers; // from 1
  for (llvm::Argument &argument : kernel.args())
    if (argument.hasByValAttr())
      numbers.push_back(llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(i32, argument.getArgNo() + 1)));
  if (numbers.empty()) return;
  llvm::Metadata *fields[] = {llvm::ConstantAsMetadata::get(&kernel),
                              llvm::MDString::get(context, "grid_constant"),
                              llvm::MDNode::get(context, numbers)};
  kernel.getParent()
      ->getOrInsertNamedMetadata("nvvm.annotations")
      ->addOperand(llvm::MDNode::get(context, fields));
}

/// A kernel's function says how many threads run it: what ptxas may give each of them follows from that.
static void declareKernels(mlir::ModuleOp module, llvm::Module &code, const Target &target) {
  llvm::LLVMContext &context = code.getContext();
  llvm::Type *i32 = llvm::Type::getInt32Ty(context);
  for (auto function : module.getOps<mlir::LLVM::LLVMFuncOp>()) {
    const LaunchNotes notes = LaunchNotes::of(function);
    if (!notes.threads) continue;
    llvm::Function *kernel = code.getFunction(function.getName());
    kernel->setCallingConv(llvm::CallingConv::PTX_Kernel);
    auto annotate = [&](const char *name, int64_t value) {
      llvm::Metadata *fields[] = {llvm::ConstantAsMetadata::get(kernel), llvm::MDString::get(context, name),
                                  llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(i32, value))};
      code.getOrInsertNamedMetadata("nvvm.annotations")->addOperand(llvm::MDNode::get(context, fields));
    };
    annotate("kernel", 1);
    annotate("maxntidx", notes.threads);
    annotate("maxntidy", 1);
    annotate("maxntidz", 1);
    // Before sm_90, ptxas would spill a few registers for one more CTA a multiprocessor.
    if (notes.keepsRegisters && target.capability() < 90) annotate("minctasm", 1);
    keepParametersInPlace(*kernel);
  }
}

/// What addPassesToEmitFile adds, but with a level of their own for the passes that make LLVM IR ready for
/// selection.
static bool addCodegen(llvm::LLVMTargetMachine &machine, llvm::CodeGenOptLevel irLevel,
                       llvm::legacy::PassManager &passes, llvm::raw_pwrite_stream &out) {
  auto *functions = new llvm::MachineModuleInfoWrapperPass(&machine);
  llvm::TargetPassConfig *config = machine.createPassConfig(passes);
  passes.add(config);
  passes.add(functions);
  const llvm::CodeGenOptLevel level = machine.getOptLevel();
  machine.setOptLevel(irLevel);
  config->addIRPasses();
  machine.setOptLevel(llvm::CodeGenOptLevel::None);
  config->addPassesToHandleExceptions();
  config->addCodeGenPrepare();
  config->addISelPrepare();
  machine.setOptLevel(level);
  if (config->addInstSelector()) return false;
  passes.add(llvm::Pass::createPass(&llvm::FinalizeISelID));
  config->addMachinePasses();
  config->setInitialized();
  if (machine.addAsmPrinter(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile,
                            functions->getMMI().getContext()))
    return false;
  passes.add(llvm::createFreeMachineFunctionPass());
  return true;
}

StatusOr<std::string> emitPtx(mlir::ModuleOp module, const Target &target, int optLevel, Output output) {
  mlir::registerBuiltinDialectTranslation(*module.getContext());
  mlir::registerLLVMDialectTranslation(*module.getContext());
  mlir::registerNVVMDialectTranslation(*module.getContext());
  Diagnostics diagnostics(*module.getContext());
  llvm::LLVMContext context;
  diagnostics.listenTo(context);
  std::unique_ptr<llvm::Module> code = mlir::translateModuleToLLVMIR(module, context);
  if (!code) return diagnostics.error("the kernel could not be translated to LLVM IR");
  // ptxas schedules and allocates registers anew, and makes as much of what LLVM's selection leaves, with
  // fewer registers and in two thirds of the time. But it keeps accumulators in place only where LLVM's
  // coalescer gave them the same registers in a whole loop (wgmma: C7514; else spills). Levels above the
  // first, which has one, write the same PTX. IR that was written for the copy engine and wgmma is not
  // improved by what LLVM does to loops' addresses: ptxas made longer code of it, and it took a fifth of the
  // time. Portable products have many more addresses, and spill without.
  const bool hasProduct = isAny(module, &LaunchNotes::hasProduct);
  TW_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine,
                      makeTargetMachine(target, hasProduct ? std::min(optLevel, 1) : 0));
  code->setDataLayout(machine->createDataLayout());
  code->setTargetTriple(kTriple);
  declareKernels(module, *code, target);
  makeInlinePtxConvergent(*code);
  if (optLevel > 0) optimiseForGpu(*code, *machine, hasProduct);

  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  if (output == Output::llvmIr) {
    code->print(stream, nullptr);
    return std::string(text);
  }
  llvm::legacy::PassManager codegen;
  const auto irLevel =
      isAny(module, &LaunchNotes::persistent) ? llvm::CodeGenOptLevel::None : machine->getOptLevel();
  if (!addCodegen(static_cast<llvm::LLVMTargetMachine &>(*machine), irLevel, codegen, stream))
    return compileError("LLVM's code generator for '" + target.arch + "' cannot write PTX");
  codegen.run(*code);
  if (!diagnostics.errors().empty())
    return diagnostics.error("LLVM's code generator for '" + target.arch + "' refused the kernel");
  return std::string(text);
}

} // namespace tilewright::nvptx
