#include "compiler/compile.h"

#include <chrono>

#include "compiler/base/elapsed.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include "compiler/base/hash.h"
#include "compiler/base/memory_reserve.h"
#include "compiler/check_options.h"
#include "compiler/cpu/emit_object.h"
#include "compiler/dialect/kernel_signature.h"
#include "compiler/dialect/launch_notes.h"
#include "compiler/dsl/build.h"
#include "compiler/dump.h"
#include "compiler/nvptx/emit_ptx.h"
#include "compiler/pipeline.h"

using namespace mlir;

namespace tilewright {
namespace {

// One kernel on its way through the stages. The context outlives the module.
struct Compilation {
  std::unique_ptr<MLIRContext> context;
  OwningOpRef<ModuleOp> module;
  Dump dump;
};

StatusOr<Compilation> begin(const Kernel &kernel, const Target &target, const CompileOptions &options,
                            const Environment &environment) {
  auto context = std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED);
  TW_ASSIGN_OR_RETURN(OwningOpRef<ModuleOp> module, buildKernel(kernel, *context));
  std::string tile = irText(*module);
  Dump dump(environment, kernel.name, sha256(tile + target.str() + options.str()));
  if (dump.wants(Stage::tile)) dump.write(Stage::tile, tile);
  return Compilation{std::move(context), std::move(module), std::move(dump)};
}

FunctionOpInterface functionOf(const Kernel &kernel, ModuleOp tiles) {
  return llvm::cast<FunctionOpInterface>(tiles.lookupSymbol(kernel.name));
}

Status lowerTiles(Compilation &compilation, const Kernel &kernel, const Target &target,
                  const CompileOptions &options) {
  const size_t gridAxes = tile::gridOf(functionOf(kernel, *compilation.module)).size();
  const Status fits = checkOptions(target, options, gridAxes);
  if (!fits.ok()) return fits.in("kernel '" + kernel.name + "'");
  TW_RETURN_IF_ERROR(compilation.dump.runPasses(
      *compilation.module, [&](OpPassManager &passes) { addTilePasses(passes, target, options); }));
  if (compilation.dump.wants(Stage::lowered))
    compilation.dump.write(Stage::lowered, irText(*compilation.module));
  return {};
}

Status lowerToLlvm(Compilation &compilation, const Target &target, const CompileOptions &options) {
  return compilation.dump.runPasses(*compilation.module, [&](OpPassManager &passes) {
    target.kind == TargetKind::cpu ? addCpuPasses(passes, target, options)
                                   : addNvptxPasses(passes, target, options);
  });
}

StatusOr<std::string> textOf(Stage stage, ModuleOp module, const Target &target,
                             const CompileOptions &options) {
  if (target.kind == TargetKind::nvptx)
    return nvptx::emitPtx(module, target, options.optLevel,
                          stage == Stage::llvm ? nvptx::Output::llvmIr : nvptx::Output::ptx);
  cpu::Output output = stage == Stage::llvm ? cpu::Output::llvmIr : cpu::Output::assembly;
  return cpu::emitObject(module, target, options.optLevel, output);
}

Status dumpCode(const Compilation &compilation, const Target &target, const CompileOptions &options) {
  for (Stage stage : {Stage::llvm, Stage::assembly})
    if (compilation.dump.wants(stage)) {
      TW_ASSIGN_OR_RETURN(std::string text, textOf(stage, *compilation.module, target, options));
      compilation.dump.write(stage, text);
    }
  return {};
}

// Everything but the code.
Artifact describeKernel(const Kernel &kernel, const Target &target, ModuleOp tiles) {
  Artifact artifact;
  artifact.kernel = kernel.name;
  artifact.target = target.str();
  FunctionOpInterface function = functionOf(kernel, tiles);
  artifact.parameters = tile::parametersOf(function);
  artifact.grid = tile::gridOf(function);
  return artifact;
}

// What a lowering noted on the kernel's function.
void describeLaunch(Artifact &artifact, ModuleOp lowered) {
  LaunchNotes notes = LaunchNotes::of(lowered.lookupSymbol(artifact.kernel));
  artifact.scratchBytes = notes.scratchBytes;
  artifact.threads = notes.threads;
  artifact.sharedBytes = notes.sharedBytes;
  artifact.tensorMaps = std::move(notes.tensorMaps);
  artifact.clusterCtas = notes.clusterCtas;
  artifact.persistent = notes.persistent;
  artifact.startsEarly = notes.startsEarly;
  artifact.ranksClusters = notes.ranksClusters;
}

Status generateCode(Artifact &artifact, ModuleOp lowered, const Target &target,
                    const CompileOptions &options) {
  if (target.kind == TargetKind::nvptx) {
    TW_ASSIGN_OR_RETURN(artifact.assembly,
                        nvptx::emitPtx(lowered, target, options.optLevel, nvptx::Output::ptx));
  } else {
    TW_ASSIGN_OR_RETURN(artifact.binary,
                        cpu::emitObject(lowered, target, options.optLevel, cpu::Output::object));
  }
  return {};
}

} // namespace

bool hasCompiler() { return true; }

StatusOr<Artifact> compile(const Kernel &kernel, const Target &target, const CompileOptions &options,
                           const Environment &environment) {
  UsesReserve forLlvm;
  auto start = std::chrono::steady_clock::now();
  TW_ASSIGN_OR_RETURN(Compilation compilation, begin(kernel, target, options, environment));
  Artifact artifact = describeKernel(kernel, target, *compilation.module);
  TW_RETURN_IF_ERROR(lowerTiles(compilation, kernel, target, options));
  TW_RETURN_IF_ERROR(lowerToLlvm(compilation, target, options));
  describeLaunch(artifact, *compilation.module);
  TW_RETURN_IF_ERROR(dumpCode(compilation, target, options));
  TW_RETURN_IF_ERROR(generateCode(artifact, *compilation.module, target, options));
  artifact.compileMilliseconds = millisecondsSince(start);
  return artifact;
}

StatusOr<std::string> emit(const Kernel &kernel, const Target &target, const CompileOptions &options,
                           Stage stage, const Environment &environment) {
  UsesReserve forLlvm;
  TW_ASSIGN_OR_RETURN(Compilation compilation, begin(kernel, target, options, environment));
  if (stage == Stage::tile) return irText(*compilation.module);
  TW_RETURN_IF_ERROR(lowerTiles(compilation, kernel, target, options));
  if (stage == Stage::lowered) return irText(*compilation.module);
  if (stage == Stage::plan || stage == Stage::layout) {
    if (target.kind == TargetKind::cpu)
      return userError("expected a GPU, whose threads share tiles; found a CPU");
    auto addPasses = stage == Stage::plan ? addPlanPasses : addLayoutPasses;
    TW_RETURN_IF_ERROR(compilation.dump.runPasses(
        *compilation.module, [&](OpPassManager &passes) { addPasses(passes, target, options); }));
    return irText(*compilation.module);
  }
  TW_RETURN_IF_ERROR(lowerToLlvm(compilation, target, options));
  return textOf(stage, *compilation.module, target, options);
}

StatusOr<std::string> fingerprint(const Kernel &kernel) {
  UsesReserve forMlir;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  TW_ASSIGN_OR_RETURN(OwningOpRef<ModuleOp> module, buildKernel(kernel, context));
  return sha256(irText(*module));
}

} // namespace tilewright
