#include <cstdio>
#include <limits>

#include "compiler/base/env.h"
#include "compiler/compile.h"
#include "kernels/catalog.h"
#include "runtime/cuda/ptxas.h"
#include "tools/cli/number_type.h"
#include "tools/commands/commands.h"
#include "tools/io/output_folder.h"

namespace tilewright {
namespace {

StatusOr<Stage> stageOf(const Arguments &arguments, const Target &target) {
  TW_RETURN_IF_ERROR(arguments.required("--stage").status());
  TW_ASSIGN_OR_RETURN(const std::string name, arguments.choice("--stage", {"tile", "lowered", "plan",
                                                                           "layout", "llvm", "asm", "ptx"}));
  if ((name == "ptx" || name == "plan" || name == "layout") && target.kind == TargetKind::cpu)
    return userError("expected --stage tile, lowered, llvm or asm for --target cpu, found '" + name +
                     "', which NVIDIA's GPUs have");
  if (name == "tile") return Stage::tile;
  if (name == "lowered") return Stage::lowered;
  if (name == "plan") return Stage::plan;
  if (name == "layout") return Stage::layout;
  return name == "llvm" ? Stage::llvm : Stage::assembly;
}

/// What NVIDIA's own tools make of PTX: instructions of the target and of no other GPU.
StatusOr<std::string> instructionsOf(const std::string &kernel, const std::string &ptx, const Target &target,
                                     const Environment &environment) {
  constexpr int anyVersion = std::numeric_limits<int>::max(); // nothing is loaded
  const auto assembler = cuda::Ptxas::find(environment.toolFolders, anyVersion);
  if (!assembler)
    return userError("expected NVIDIA's ptxas on PATH or below CUDA_HOME for --stage asm, found none; choose "
                     "--stage ptx, which needs no CUDA toolkit");
  TW_ASSIGN_OR_RETURN(const std::string cubin, assembler->assemble(kernel, ptx, target.arch));
  return cuda::disassemble(environment.toolFolders, kernel, cubin);
}

StatusOr<Target> targetOf(const Arguments &arguments) {
  TW_ASSIGN_OR_RETURN(const std::string name, arguments.required("--target"));
  StatusOr<Target> target = parseTarget(name);
  return target.ok() ? target : userError("--target: " + target.status().message());
}

Status emitKernel(const Arguments &arguments) {
  TW_ASSIGN_OR_RETURN(const std::string name, arguments.required("--kernel"));
  TW_ASSIGN_OR_RETURN(const Target target, targetOf(arguments));
  TW_ASSIGN_OR_RETURN(const Stage stage, stageOf(arguments, target));
  TW_ASSIGN_OR_RETURN(const NumberType type, readNumberType(arguments));
  TW_ASSIGN_OR_RETURN(const CatalogEntry entry, findKernel(name));
  CompileOptions options = entry.options(target.kind);
  options.alignedMatrices = true;
  options.tf32 = type.tf32;
  const Kernel kernel = entry.make(type.element);
  TW_ASSIGN_OR_RETURN(const Environment environment, readEnvironment());
  TW_ASSIGN_OR_RETURN(std::string text, emit(kernel, target, options, stage, environment));
  if (arguments.text("--stage") == "asm" && target.kind == TargetKind::nvptx) {
    TW_ASSIGN_OR_RETURN(text, instructionsOf(kernel.name, text, target, environment));
  }
  if (const std::optional<std::string> file = arguments.text("-o")) return writeFile(*file, text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

} // namespace

Command emitCommand() {
  Command command;
  command.name = "emit";
  command.summary = "a kernel as text, at a stage of its compilation";
  command.usage = "--kernel NAME --target cpu|sm_80|sm_90a --stage tile|lowered|plan|layout|llvm|asm|ptx "
                  "[--dtype TYPE] [-o FILE]";
  command.options = {
      {"--kernel", "NAME", "one of those that `tilewright inspect` lists"},
      {"--target", "NAME",
       "cpu: this one; x86-64-v3, znver4, …, aarch64: others; sm_80, sm_90, …: GPUs; sm_90a: Hopper"},
      {"--stage", "STAGE",
       "tile: the tile dialect; lowered: the same of static tiles, where a target's lowering starts; plan: "
       "with what the warps of a GPU do; layout: with which of its threads hold what, too; llvm: LLVM IR; "
       "ptx: "
       "NVIDIA's assembly; asm: the processor's or GPU's own instructions, of which a GPU's are shown by a "
       "CUDA toolkit's ptxas and nvdisasm or cuobjdump"},
      numberTypeSpec(": of its main inputs"),
      {"-o", "FILE", "where to write it; default: standard output"},
  };
  command.run = emitKernel;
  return command;
}

} // namespace tilewright
