#pragma once

#include <map>
#include <string>

#include "compiler/artifact.h"
#include "compiler/base/status.h"
#include "runtime/kernel_cache.h"

namespace tilewright {

/// All that a compiled kernel depends on.
struct ArtifactKey {
  KernelKey kernel;
  std::string fingerprint; ///< of the kernel's body
  std::string target;      ///< Target::str(), and DeviceInfo::assembler where there is one
  std::string compiler;    ///< compilerVersion()
  std::string environment; ///< Environment::keyLines

  /// SHA-256 of the fields, in hex; the name of the entry.
  std::string digest() const;
};

/// An entry's files by name: "manifest.json", and "binary" and "assembly" unless they are empty.
using EntryFiles = std::map<std::string, std::string>;

constexpr const char *kManifestName = "manifest.json";
constexpr std::size_t kMaxEntryFileBytes = std::size_t(1) << 30;

struct Entry {
  ArtifactKey key;
  Artifact artifact;
};

/// An entry as files: the manifest holds the key, the artifact's plain data, and the size and SHA-256 of
/// every other file and of itself. An error when the key is not UTF-8.
StatusOr<EntryFiles> encodeEntry(const Entry &entry);

/// The entry in `files`, which is named `digest`. A runtime error says what is wrong: a manifest that is not,
/// byte for byte, what encodeEntry writes, a file that is missing, additional or not what the manifest says,
/// or another key.
StatusOr<Entry> decodeEntry(const std::string &digest, const EntryFiles &files);

} // namespace tilewright
