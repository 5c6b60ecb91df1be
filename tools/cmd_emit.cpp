#include <cstdio>

#include "compiler/compile.h"
#include "kernels/catalog.h"
#include "tools/commands.h"
#include "tools/number_type.h"
#include "tools/output_folder.h"

namespace tilewright {
namespace {

/// The assembly of a target has one name: asm on a processor, ptx on a GPU.
StatusOr<Stage> stageOf(const Arguments &arguments, const Target &target) {
  TW_RETURN_IF_ERROR(arguments.required("--stage").status());
  TW_ASSIGN_OR_RETURN(const std::string name, arguments.choice("--stage", {"tile", "llvm", "asm", "ptx"}));
  const bool isCpu = target.kind == TargetKind::cpu;
  if (name == "ptx" && isCpu)
    return userError(
        "expected --stage tile, llvm or asm for --target cpu, found 'ptx', which is NVIDIA's assembly");
  if (name == "asm" && !isCpu)
    return userError("expected --stage tile, llvm or ptx for --target " + target.arch +
                     ", found 'asm', which the driver makes of the PTX");
  return name == "tile" ? Stage::tile : name == "llvm" ? Stage::llvm : Stage::assembly;
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
  TW_ASSIGN_OR_RETURN(const std::string text, emit(entry.make(type.element), target, options, stage));
  if (const std::optional<std::string> file = arguments.text("-o")) return writeFile(*file, text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

} // namespace

Command emitCommand() {
  Command command;
  command.name = "emit";
  command.summary = "a kernel as text, at a stage of its compilation";
  command.usage =
      "--kernel NAME --target cpu|sm_80|sm_90a --stage tile|llvm|asm|ptx [--dtype TYPE] [-o FILE]";
  command.options = {
      {"--kernel", "NAME", "one of those that `tilewright inspect` lists"},
      {"--target", "NAME", "cpu: this machine's processor; sm_80 and later: NVIDIA GPUs; sm_90a: Hopper"},
      {"--stage", "STAGE", "tile: the tile dialect; llvm: LLVM IR; asm: assembly of cpu; ptx: of sm_…"},
      numberTypeSpec(": of its main inputs"),
      {"-o", "FILE", "where to write it; default: standard output"},
  };
  command.run = emitKernel;
  return command;
}

} // namespace tilewright
