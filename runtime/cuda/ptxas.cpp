#include "runtime/cuda/ptxas.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>

#include "compiler/base/log.h"
#include "compiler/base/scratch_folder.h"

extern char **environ;

namespace tilewright::cuda {
namespace {

std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct FileActions {
  FileActions() { posix_spawn_file_actions_init(&actions); }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions); }
  FileActions(const FileActions &) = delete;
  posix_spawn_file_actions_t actions;
};

/// Whether the program ran and returned 0. What it writes goes to a file.
bool run(std::vector<std::string> words, const std::string &outputFile) {
  std::vector<char *> arguments;
  for (std::string &word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  FileActions files;
  posix_spawn_file_actions_addopen(&files.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files.actions, STDOUT_FILENO, outputFile.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files.actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t process = 0;
  if (posix_spawn(&process, arguments[0], &files.actions, nullptr, arguments.data(), environ) != 0)
    return false;
  int status = 0;
  while (waitpid(process, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Its CUDA version, as the driver counts; 0 when it does not say.
int versionOf(const std::string &path) {
  StatusOr<std::unique_ptr<ScratchFolder>> folder = ScratchFolder::make();
  if (!folder.ok() || !run({path, "--version"}, **folder / "words")) return 0;
  const std::string words = readFile(**folder / "words");
  const std::size_t at = words.find("release ");
  int major = 0, minor = 0;
  if (at == std::string::npos || std::sscanf(words.c_str() + at, "release %d.%d", &major, &minor) != 2)
    return 0;
  return 1000 * major + 10 * minor;
}

} // namespace

std::optional<Ptxas> Ptxas::find(const std::vector<std::string> &folders, int driverVersion) {
  for (const std::string &folder : folders) {
    const std::string path = folder + "/ptxas";
    if (access(path.c_str(), X_OK) != 0) continue;
    const int version = versionOf(path);
    if (version > 0 && version <= driverVersion) {
      logInfo("PTX is assembled by " + path);
      return Ptxas(path);
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
  if (!run({path_, "-arch=" + arch, source, "-o", cubin}, words))
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
      if (access(path.c_str(), X_OK) != 0) continue;
      const bool done = run({path, option, binary}, words);
      std::string text = readFile(words);
      if (done) return text;
      return runtimeError("the cubin of kernel '" + kernel + "' is refused by " + path + ":\n" + text);
    }
  return userError("expected NVIDIA's nvdisasm or cuobjdump on PATH or below CUDA_HOME, found neither; both "
                   "are parts of the CUDA toolkit");
}

} // namespace tilewright::cuda
