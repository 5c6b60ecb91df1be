#include "compiler/optimise.h"

#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/CorrelatedValuePropagation.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/Reassociate.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

namespace tilewright {
namespace {

/// Passes, and what they know of a module, for one target.
struct Passes {
  explicit Passes(llvm::TargetMachine &machine, llvm::PipelineTuningOptions tuning = {})
      : builder(&machine, tuning) {
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(callGraph);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, callGraph, modules);
  }

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager callGraph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder;
};

} // namespace

void optimise(llvm::Module &module, llvm::TargetMachine &machine, int level) {
  static const llvm::OptimizationLevel levels[] = {llvm::OptimizationLevel::O0, llvm::OptimizationLevel::O1,
                                                   llvm::OptimizationLevel::O2, llvm::OptimizationLevel::O3};
  if (level == 0) return;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = tuning.LoopUnrolling = false;
  Passes passes(machine, tuning);
  passes.builder.buildPerModuleDefaultPipeline(levels[level]).run(module, passes.modules);
}

void optimiseForGpu(llvm::Module &module, llvm::TargetMachine &machine, bool multiplies) {
  using namespace llvm;
  Passes passes(machine);
  LoopPassManager rotateAndHoist;
  rotateAndHoist.addPass(LoopRotatePass());
  rotateAndHoist.addPass(LICMPass(LICMOptions()));
  FunctionPassManager list;
  list.addPass(SROAPass(SROAOptions::ModifyCFG));
  list.addPass(SimplifyCFGPass());
  list.addPass(InstCombinePass());
  list.addPass(createFunctionToLoopPassAdaptor(std::move(rotateAndHoist), /*UseMemorySSA=*/true));
  if (multiplies) {
    list.addPass(CorrelatedValuePropagationPass());
    list.addPass(createFunctionToLoopPassAdaptor(IndVarSimplifyPass()));
  }
  list.addPass(EarlyCSEPass(/*UseMemorySSA=*/true));
  list.addPass(ReassociatePass());
  list.addPass(SimplifyCFGPass(SimplifyCFGOptions().hoistCommonInsts(true).sinkCommonInsts(true)));
  ModulePassManager all;
  // The target's own: how large a thread's number can be. Without it ptxas runs out of registers.
  passes.builder.invokePipelineStartEPCallbacks(all, OptimizationLevel::O2);
  all.addPass(createModuleToFunctionPassAdaptor(std::move(list)));
  all.run(module, passes.modules);
}

} // namespace tilewright
