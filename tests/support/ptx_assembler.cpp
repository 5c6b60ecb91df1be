#include "tests/support/ptx_assembler.h"

#include <cstdlib>

#include "tests/support/temporary_folder.h"

namespace tilewright::test {

std::string findPtxAssembler() {
  const char *home = std::getenv("CUDA_HOME");
  for (const std::string &command :
       {std::string("ptxas"), std::string(home ? home : "/usr/local/cuda") + "/bin/ptxas"})
    if (std::system((command + " --version >/dev/null 2>&1").c_str()) == 0) return command;
  return "";
}

std::string faultsOfAssembled(const std::string &assembler, const std::string &ptx, const std::string &arch) {
  TemporaryFolder folder;
  const std::string base = folder / "kernel";
  writeWholeFile(base + ".ptx", ptx);
  const std::string command =
      assembler + " -v -arch=" + arch + " " + base + ".ptx -o " + base + ".cubin >" + base + ".log 2>&1";
  const bool ok = std::system(command.c_str()) == 0;
  const std::string words = readWholeFile(base + ".log");
  const auto says = [&](const char *text) { return words.find(text) != std::string::npos; };
  const bool spills = !says("0 bytes spill stores, 0 bytes spill loads");
  return ok && !spills && !says("warning") ? "" : words;
}

} // namespace tilewright::test
