#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "compiler/base/status.h"

namespace tilewright {

/// A new folder (0700) among the system's temporary files; gone with its owner.
class ScratchFolder {
public:
  static StatusOr<std::unique_ptr<ScratchFolder>> make() {
    std::error_code unknown;
    std::string pattern = std::filesystem::temp_directory_path(unknown) / "tilewright-XXXXXX";
    if (unknown || !mkdtemp(pattern.data()))
      return runtimeError("expected a folder for temporary files, found none to write");
    return std::make_unique<ScratchFolder>(pattern);
  }
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  ScratchFolder(const ScratchFolder &) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const char *name) const { return path_ + "/" + name; }

private:
  std::string path_;
};

} // namespace tilewright
