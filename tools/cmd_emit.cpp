#include <cstdio>

#include "compiler/compile.h"
#include "kernels/catalog.h"
#include "tools/commands.h"
#include "tools/output_folder.h"

namespace tilewright {
namespace {

StatusOr<Stage> stageOf(const Arguments &arguments) {
  TW_ASSIGN_OR_RETURN(const std::string name, arguments.required("--stage"));
  if (name == "ptx")
    return userError(
        "expected --stage tile, llvm or asm for --target cpu, found 'ptx', which is NVIDIA's assembly");
  TW_ASSIGN_OR_RETURN(const std::string known, arguments.choice("--stage", {"tile", "llvm", "asm"}));
  return known == "tile" ? Stage::tile : known == "llvm" ? Stage::llvm : Stage::assembly;
}

Status emitKernel(const Arguments &arguments) {
  TW_ASSIGN_OR_RETURN(const std::string name, arguments.required("--kernel"));
  TW_RETURN_IF_ERROR(arguments.required("--target").status());
  TW_ASSIGN_OR_RETURN(const std::string targetName,
                      arguments.choice("--target", {"cpu"}, {"sm_80", "sm_90a"}));
  TW_ASSIGN_OR_RETURN(const Target target, parseTarget(targetName));
  TW_ASSIGN_OR_RETURN(const Stage stage, stageOf(arguments));
  TW_ASSIGN_OR_RETURN(const std::string dtype, arguments.choice("--dtype", {"f32", "bf16", "f16"}, {"tf32"}));
  TW_ASSIGN_OR_RETURN(const ElementType element, parseElementType(dtype));
  TW_ASSIGN_OR_RETURN(const Kernel kernel, findKernel(name, element));
  TW_ASSIGN_OR_RETURN(const std::string text, emit(kernel, target, {}, stage));
  if (const std::optional<std::string> file = arguments.text("-o")) return writeFile(*file, text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return {};
}

} // namespace

Command emitCommand() {
  Command command;
  command.name = "emit";
  command.summary = "a kernel as text, at a stage of its compilation";
  command.usage = "--kernel NAME --target cpu --stage tile|llvm|asm [--dtype TYPE] [-o FILE]";
  command.options = {
      {"--kernel", "NAME", "one of those that `tilewright inspect` lists"},
      {"--target", "NAME", "cpu: this machine's processor"},
      {"--stage", "STAGE", "tile: the tile dialect; llvm: LLVM IR; asm: assembly"},
      {"--dtype", "TYPE", "f32 (default), bf16 or f16: of its main inputs"},
      {"-o", "FILE", "where to write it; default: standard output"},
  };
  command.run = emitKernel;
  return command;
}

} // namespace tilewright
