#include "runtime/cuda/ptxas.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>

#include "compiler/base/log.h"
#include "compiler/base/scratch_folder.h"
#include "runtime/cuda/program.h"

namespace tilewright::cuda {
namespace {

std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Assembling the largest kernel takes a few seconds.
constexpr std::chrono::milliseconds kTimeToAnswer = std::chrono::seconds(20);
constexpr std::chrono::milliseconds kTimeToAssemble = std::chrono::minutes(5);

/// "12.4.131", of "release 12.4, V12.4.131". Empty when it does not say its version.
std::string releaseOf(const std::string &path) {
  StatusOr<std::unique_ptr<ScratchFolder>> folder = ScratchFolder::make();
  if (!folder.ok() || !runProgram({path, "--version"}, **folder / "words", kTimeToAnswer)) return "";
  const std::string words = readFile(**folder / "words");
  const std::size_t at = words.find(", V");
  if (words.find("release ") == std::string::npos || at == std::string::npos) return "";
  const std::size_t begin = at + 3, end = words.find_first_not_of("0123456789.", begin);
  return words.substr(begin, end == std::string::npos ? end : end - begin);
}

/// As the driver counts; 0 when it is none.
int versionOf(const std::string &release) {
  int major = 0, minor = 0;
  return std::sscanf(release.c_str(), "%d.%d", &major, &minor) == 2 ? 1000 * major + 10 * minor : 0;
}

} // namespace

std::optional<Ptxas> Ptxas::find(const std::vector<std::string> &folders, int driverVersion) {
  for (const std::string &folder : folders) {
    const std::string path = folder + "/ptxas";
    if (access(path.c_str(), X_OK) != 0) continue;
    if (const std::string distrust = distrustOf(path); !distrust.empty()) {
      logWarning(path + " is not used: " + distrust + "; chmod go-w would make it usable");
      continue;
    }
    const std::string release = releaseOf(path);
    const int version = versionOf(release);
    if (version > 0 && version <= driverVersion) {
      logInfo("PTX is assembled by " + path);
      return Ptxas(path, release);
    }
    logInfo(path + " is not used: " + (version ? "the driver is older" : "it does not say its version"));
  }
  return std::nullopt;
}

StatusOr<std::string> Ptxas::assemble(const std::string &kernel, const std::string &ptx,
                                      const std::string &arch) const {
  TW_ASSIGN_OR_RETURN(const std::unique_ptr<ScratchFolder> folder, ScratchFolder::make());
  const std::string source = *folder / "kernel.ptx", cubin = *folder / "kernel.cubin";
  const std::string words = *folder / "words";
  std::ofstream(source, std::ios::binary) << ptx;
  if (!runProgram({path_, "-arch=" + arch, source, "-o", cubin}, words, kTimeToAssemble))
    return compileError("PTX of kernel '" + kernel + "' is refused by " + path_ + ":\n" + readFile(words));
  std::string binary = readFile(cubin);
  if (binary.empty())
    return compileError("PTX of kernel '" + kernel + "': expected a cubin from " + path_ + ", found none");
  return binary;
}

StatusOr<std::string> disassemble(const std::vector<std::string> &folders, const std::string &kernel,
                                  const std::string &cubin) {
  TW_ASSIGN_OR_RETURN(const std::unique_ptr<ScratchFolder> scratch, ScratchFolder::make());
  const std::string binary = *scratch / "kernel.cubin", words = *scratch / "words";
  std::ofstream(binary, std::ios::binary) << cubin;
  for (const std::string &folder : folders)
    for (const auto &[program, option] : {std::pair("/nvdisasm", "-c"), std::pair("/cuobjdump", "-sass")}) {
      const std::string path = folder + program;
      if (access(path.c_str(), X_OK) != 0 || !distrustOf(path).empty()) continue;
      const bool done = runProgram({path, option, binary}, words, kTimeToAssemble);
      std::string text = readFile(words);
      if (done) return text;
      return runtimeError("the cubin of kernel '" + kernel + "' is refused by " + path + ":\n" + text);
    }
  return userError("expected NVIDIA's nvdisasm or cuobjdump on PATH or below CUDA_HOME, found neither; both "
                   "are parts of the CUDA toolkit");
}

} // namespace tilewright::cuda
