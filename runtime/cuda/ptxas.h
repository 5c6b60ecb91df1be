#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/base/status.h"

namespace tilewright::cuda {

/// NVIDIA's assembler as a program of its own, where the machine has one. What it makes is a whole program:
/// warps with roles of their own can trade registers, which what the driver's linker makes cannot.
class Ptxas {
public:
  /// The first `ptxas` in these folders that is not newer than a driver of this CUDA version (1000 · major +
  /// 10 · minor): such a driver loads what it makes. None when there is none that runs. One in a folder that
  /// others may write is left out, with a warning: they could have put anything there.
  static std::optional<Ptxas> find(const std::vector<std::string> &folders, int driverVersion);

  /// PTX to a cubin for `arch` ("sm_90a"). A compile error carries what the program wrote about `kernel`.
  StatusOr<std::string> assemble(const std::string &kernel, const std::string &ptx,
                                 const std::string &arch) const;

  const std::string &path() const { return path_; }
  /// "12.4.131".
  const std::string &release() const { return release_; }

private:
  Ptxas(std::string path, std::string release) : path_(std::move(path)), release_(std::move(release)) {}

  std::string path_, release_;
};

/// A cubin as text, the GPU's own instructions, by the first `nvdisasm` or `cuobjdump` in these folders. A
/// user error says that there is none, a runtime error what the program wrote about `kernel`.
StatusOr<std::string> disassemble(const std::vector<std::string> &folders, const std::string &kernel,
                                  const std::string &cubin);

} // namespace tilewright::cuda
