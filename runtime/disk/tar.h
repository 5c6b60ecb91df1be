#pragma once

#include <string>
#include <vector>

#include "compiler/base/status.h"

namespace tilewright {

/// A file in a tar archive; `name` is a relative path of at most 100 bytes.
struct TarMember {
  std::string name;
  std::string bytes;
};

/// The bytes of a POSIX ustar archive of plain files.
std::string writeTar(const std::vector<TarMember> &members);

/// Reads plain files and skips folders; a user error on anything else (links, devices, long names, a wrong
/// checksum, an end too early, bytes after the end).
StatusOr<std::vector<TarMember>> readTar(const std::string &bytes);

} // namespace tilewright
