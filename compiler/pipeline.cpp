#include "compiler/pipeline.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include "compiler/cpu/machine.h"
#include "compiler/cpu/passes.h"
#include "compiler/passes/passes.h"

using namespace mlir;

namespace tilewright {

void addTilePasses(OpPassManager &passes) {
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addNestedPass<func::FuncOp>(createGatherToSelect());
  passes.addNestedPass<func::FuncOp>(createDecomposeSoftmax());
  passes.addPass(createCSEPass());
  passes.addNestedPass<func::FuncOp>(createOnlineSoftmax());
  passes.addNestedPass<func::FuncOp>(createStreamRows());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createLoopInvariantCodeMotionPass());
}

static std::unique_ptr<Pass> createLowerToVectorFor(const Target &target, const CompileOptions &options) {
  cpu::Machine machine = cpu::machineFor(target, options.schedule.contractionStep);
  return cpu::createLowerToVector(
      {machine.lanes, machine.registers, machine.bf16Dot, machine.contractionStep});
}

void addCpuPasses(OpPassManager &passes, const Target &target, const CompileOptions &options) {
  passes.addPass(createLowerToVectorFor(target, options));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(cpu::createExpandMath());
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createConvertSCFToCFPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createConvertFuncToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
}

} // namespace tilewright
