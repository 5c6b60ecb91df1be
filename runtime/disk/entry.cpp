#include "runtime/disk/entry.h"

#include <nlohmann/json.hpp>

#include "compiler/base/hash.h"
#include "compiler/base/memory_reserve.h"
#include "compiler/base/printable.h"
#include "runtime/disk/artifact_json.h"

namespace tilewright {
namespace {

using nlohmann::json;

/// Raised when an entry's files mean something else than before.
constexpr int kFormat = 4;

json encodeKey(const ArtifactKey &key) {
  return {{"name", key.kernel.name},       {"specialisation", key.kernel.specialisation},
          {"options", key.kernel.options}, {"fingerprint", key.fingerprint},
          {"target", key.target},          {"compiler", key.compiler},
          {"environment", key.environment}};
}

ArtifactKey decodeKey(const json &value) {
  ArtifactKey key;
  key.kernel = {value.at("name"), value.at("specialisation"), value.at("options")};
  key.fingerprint = value.at("fingerprint");
  key.target = value.at("target");
  key.compiler = value.at("compiler");
  key.environment = value.at("environment");
  return key;
}

/// The one text that a manifest may have, its own SHA-256 included.
std::string manifestText(const Entry &entry) {
  json files = json::object();
  for (const auto &[name, bytes] :
       {std::pair{"binary", &entry.artifact.binary}, std::pair{"assembly", &entry.artifact.assembly}})
    if (!bytes->empty()) files[name] = {{"bytes", bytes->size()}, {"sha256", sha256(*bytes)}};
  json manifest = {{"format", kFormat},
                   {"key", encodeKey(entry.key)},
                   {"artifact", encodeArtifact(entry.artifact)},
                   {"files", files}};
  manifest["sha256"] = sha256(manifest.dump());
  return manifest.dump(2) + "\n";
}

std::string fileOrEmpty(const EntryFiles &files, const char *name) {
  auto found = files.find(name);
  return found == files.end() ? "" : found->second;
}

/// Throws what nlohmann::json throws when the text is no manifest.
Entry parseEntry(const EntryFiles &files) {
  json manifest = json::parse(files.at(kManifestName));
  Entry entry{decodeKey(manifest.at("key")), decodeArtifact(manifest.at("artifact"))};
  entry.artifact.binary = fileOrEmpty(files, "binary");
  entry.artifact.assembly = fileOrEmpty(files, "assembly");
  return entry;
}

Status checkFileNames(const EntryFiles &files) {
  if (!files.count(kManifestName)) return runtimeError("it has no manifest.json");
  for (const auto &[name, bytes] : files)
    if (name != kManifestName && name != "binary" && name != "assembly")
      return runtimeError("it holds a foreign file '" + name + "'");
  return {};
}

} // namespace

std::string ArtifactKey::digest() const {
  return sha256(joinFields(
      {kernel.name, kernel.specialisation, kernel.options, fingerprint, target, compiler, environment}));
}

StatusOr<EntryFiles> encodeEntry(const Entry &entry) {
  UsesReserve forJson;
  try {
    EntryFiles files{{kManifestName, manifestText(entry)}};
    if (!entry.artifact.binary.empty()) files["binary"] = entry.artifact.binary;
    if (!entry.artifact.assembly.empty()) files["assembly"] = entry.artifact.assembly;
    return files;
  } catch (const std::exception &error) {
    return runtimeError(std::string("its manifest cannot be written: ") + error.what());
  }
}

StatusOr<Entry> decodeEntry(const std::string &digest, const EntryFiles &files) {
  UsesReserve forJson;
  TW_RETURN_IF_ERROR(checkFileNames(files));
  try {
    Entry entry = parseEntry(files);
    // Whatever a file lost or gained since it was written shows here: its size and hash are part of this
    // text.
    if (manifestText(entry) != files.at(kManifestName))
      return runtimeError("its files do not have the sizes and SHA-256 that its manifest says");
    if (entry.key.digest() != digest) return runtimeError("it is the entry of another key");
    TW_RETURN_IF_ERROR(checkRanges(entry.artifact));
    return entry;
  } catch (const std::exception &error) {
    return runtimeError("its manifest cannot be read: " + printable(error.what()));
  }
}

} // namespace tilewright
