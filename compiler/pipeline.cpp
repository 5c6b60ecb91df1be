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
#include "compiler/nvptx/passes.h"
#include "compiler/passes/passes.h"

using namespace mlir;

namespace tilewright {

/// Of a row, on a CPU: 1 MiB for each thread, of which a shorter row touches as much as it needs.
constexpr int64_t kKeptExponentials = 256 << 10;

static std::unique_ptr<Pass> createStreamRowsFor(const Target &target, const CompileOptions &options) {
  StreamRowsOptions rows;
  const bool isCpu = target.kind == TargetKind::cpu;
  // A GPU's block gives each of 256 threads one vector, four in the interior: 16 KB that are in flight at
  // once.
  rows.block = options.schedule.rowBlock;
  rows.bytes = isCpu ? 0 : 4096;
  rows.interior = options.schedule.rowUnroll ? options.schedule.rowUnroll : 4;
  rows.keptBytes = options.schedule.rowBytes;
  rows.partners = options.schedule.rowPartners;
  if (isCpu) rows.keptExponentials = kKeptExponentials, rows.cutLeftOut = rows.lazyShift = true;
  return createStreamRows(rows);
}

void addTilePasses(OpPassManager &passes, const Target &target, const CompileOptions &options) {
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addNestedPass<func::FuncOp>(createGatherToSelect());
  passes.addNestedPass<func::FuncOp>(createDecomposeSoftmax());
  passes.addPass(createCSEPass());
  passes.addNestedPass<func::FuncOp>(createOnlineSoftmax());
  passes.addNestedPass<func::FuncOp>(createStreamRowsFor(target, options));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createLoopInvariantCodeMotionPass());
}

static std::unique_ptr<Pass> createLowerToVectorFor(const Target &target, const CompileOptions &options) {
  cpu::Machine machine = cpu::machineFor(target, options.schedule.contractionStep);
  return cpu::createLowerToVector({machine.lanes, machine.registers, machine.bf16Dot, machine.tiles,
                                   machine.contractionStep, options.tf32});
}

void addCpuPasses(OpPassManager &passes, const Target &target, const CompileOptions &options) {
  passes.addPass(createLowerToVectorFor(target, options));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(cpu::createExpandMath({cpu::machineFor(target, 0).scales}));
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createConvertSCFToCFPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createConvertFuncToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
}

static bool hasWgmma(const Target &target) { return target.arch == "sm_90a"; }
static bool hasHopper(const Target &target, const CompileOptions &options) {
  return hasWgmma(target) && options.alignedMatrices;
}

void addPlanPasses(OpPassManager &passes, const Target &target, const CompileOptions &options) {
  nvptx::PlanWarpsOptions plan;
  plan.tf32 = options.tf32;
  plan.stages = options.schedule.stages;
  plan.hopper = hasHopper(target, options);
  plan.sharedLimit = target.sharedLimit();
  plan.roles = static_cast<int64_t>(options.schedule.roles);
  plan.clusterCtas = options.schedule.clusterCtas;
  plan.swapsOperands = options.schedule.swapsOperands;
  passes.addNestedPass<func::FuncOp>(nvptx::createMergeLoads());
  passes.addNestedPass<func::FuncOp>(nvptx::createPlanWarps(plan));
}

static nvptx::LowerToThreadsOptions lowerToThreadsFor(const Target &target, const CompileOptions &options) {
  nvptx::LowerToThreadsOptions lowering;
  lowering.warps = options.schedule.warps;
  lowering.tf32 = options.tf32;
  lowering.stages = options.schedule.stages;
  lowering.step = options.schedule.contractionStep;
  lowering.hopper = hasHopper(target, options);
  lowering.wgmma = hasWgmma(target);
  lowering.rasterRows = options.schedule.rasterRows;
  lowering.startsEarly = target.capability() >= 90;
  lowering.nextIsProduct = options.schedule.nextIsProduct;
  lowering.runsBeside = options.schedule.runsBeside;
  lowering.sharedLimit = target.sharedLimit();
  return lowering;
}

void addLayoutPasses(OpPassManager &passes, const Target &target, const CompileOptions &options) {
  addPlanPasses(passes, target, options);
  nvptx::AssignLayoutsOptions layouts;
  layouts.warps = options.schedule.warps;
  layouts.tf32 = options.tf32;
  layouts.wgmma = hasWgmma(target);
  passes.addNestedPass<func::FuncOp>(nvptx::createAssignLayouts(layouts));
}

void addNvptxPasses(OpPassManager &passes, const Target &target, const CompileOptions &options) {
  addLayoutPasses(passes, target, options);
  passes.addPass(nvptx::createLowerToThreads(lowerToThreadsFor(target, options)));
  passes.addPass(createCSEPass());
  passes.addPass(nvptx::createExpandMathNvptx());
  passes.addPass(createConvertSCFToCFPass());
  passes.addPass(nvptx::createLowerToLlvm());
}

} // namespace tilewright
