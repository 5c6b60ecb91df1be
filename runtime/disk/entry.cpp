#include "runtime/disk/entry.h"

#include <climits>

#include <nlohmann/json.hpp>

#include "compiler/base/hash.h"
#include "compiler/base/printable.h"

namespace tilewright {
namespace {

using nlohmann::json;

/// Raised when an entry's files mean something else than before.
constexpr int kFormat = 4;

constexpr Parameter::Kind kParameterKinds[] = {Parameter::Kind::view, Parameter::Kind::index,
                                               Parameter::Kind::float32};

const char *kindName(Parameter::Kind kind) {
  switch (kind) {
  case Parameter::Kind::view:
    return "view";
  case Parameter::Kind::index:
    return "index";
  case Parameter::Kind::float32:
    return "float32";
  }
  return "unknown";
}

json encodeParameter(const Parameter &parameter) {
  return {{"kind", kindName(parameter.kind)},
          {"name", parameter.name},
          {"element", elementName(parameter.element)},
          {"rank", parameter.rank},
          {"written", parameter.written}};
}

Parameter decodeParameter(const json &value) {
  Parameter parameter;
  const std::string kind = value.at("kind");
  for (Parameter::Kind candidate : kParameterKinds)
    if (kind == kindName(candidate)) parameter.kind = candidate;
  parameter.name = value.at("name");
  if (auto element = parseElementType(value.at("element")); element.ok()) parameter.element = *element;
  parameter.rank = value.at("rank");
  parameter.written = value.at("written");
  return parameter;
}

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

json encodeArtifact(const Artifact &artifact) {
  json parameters = json::array(), grid = json::array(), tensorMaps = json::array();
  for (const Parameter &parameter : artifact.parameters)
    parameters.push_back(encodeParameter(parameter));
  for (const GridAxis &axis : artifact.grid)
    grid.push_back({{"parameter", axis.parameter}, {"dim", axis.dim}, {"block", axis.block}});
  for (const TensorMap &map : artifact.tensorMaps)
    tensorMaps.push_back({{"parameter", map.parameter},
                          {"boxRows", map.boxRows},
                          {"boxColumns", map.boxColumns},
                          {"roundsToTf32", map.roundsToTf32}});
  return {{"kernel", artifact.kernel},
          {"target", artifact.target},
          {"parameters", parameters},
          {"grid", grid},
          {"scratchBytes", artifact.scratchBytes},
          {"threads", artifact.threads},
          {"sharedBytes", artifact.sharedBytes},
          {"tensorMaps", tensorMaps},
          {"persistent", artifact.persistent},
          {"clusterCtas", artifact.clusterCtas},
          {"startsEarly", artifact.startsEarly},
          {"ranksClusters", artifact.ranksClusters},
          {"compileMilliseconds", artifact.compileMilliseconds}};
}

Artifact decodeArtifact(const json &value) {
  Artifact artifact;
  artifact.kernel = value.at("kernel");
  artifact.target = value.at("target");
  for (const json &parameter : value.at("parameters"))
    artifact.parameters.push_back(decodeParameter(parameter));
  for (const json &axis : value.at("grid"))
    artifact.grid.push_back({axis.at("parameter"), axis.at("dim"), axis.at("block")});
  artifact.scratchBytes = value.at("scratchBytes");
  artifact.threads = value.at("threads");
  artifact.sharedBytes = value.at("sharedBytes");
  for (const json &map : value.at("tensorMaps"))
    artifact.tensorMaps.push_back(
        {map.at("parameter"), map.at("boxRows"), map.at("boxColumns"), map.at("roundsToTf32")});
  artifact.persistent = value.at("persistent");
  artifact.clusterCtas = value.at("clusterCtas");
  artifact.startsEarly = value.at("startsEarly");
  artifact.ranksClusters = value.at("ranksClusters");
  artifact.compileMilliseconds = value.at("compileMilliseconds");
  return artifact;
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

bool isBetween(int64_t low, int64_t value, int64_t high) { return low <= value && value <= high; }

bool isParameter(const Parameter &parameter) {
  return parameter.kind != Parameter::Kind::view || isBetween(1, parameter.rank, 2);
}

/// Whether the axis's extent is a dimension of a view, or the value of an index.
bool isAxis(const GridAxis &axis, const std::vector<Parameter> &parameters) {
  if (!isBetween(0, axis.parameter, int64_t(parameters.size()) - 1) || axis.block < 1) return false;
  const Parameter &parameter = parameters[axis.parameter];
  return parameter.kind == Parameter::Kind::view ? isBetween(0, axis.dim, parameter.rank - 1)
                                                 : parameter.kind == Parameter::Kind::index;
}

bool isTensorMap(const TensorMap &map, const std::vector<Parameter> &parameters) {
  return isBetween(0, map.parameter, int64_t(parameters.size()) - 1) && isBetween(1, map.boxRows, 256) &&
         isBetween(1, map.boxColumns, 256);
}

/// Numbers that a launch divides by or takes for sizes. A manifest may be written by anyone who may write the
/// folder, or come from an archive.
Status checkRanges(const Artifact &artifact) {
  constexpr int kMaxThreads = 1024, kMaxClusterCtas = 16;
  const auto &parameters = artifact.parameters;
  const auto wrong = [](const std::string &field) {
    return runtimeError("its manifest's " + field + " is out of range");
  };
  for (const Parameter &parameter : parameters)
    if (!isParameter(parameter)) return wrong("parameters");
  if (artifact.grid.size() > 3) return wrong("grid");
  for (const GridAxis &axis : artifact.grid)
    if (!isAxis(axis, parameters)) return wrong("grid");
  for (const TensorMap &map : artifact.tensorMaps)
    if (!isTensorMap(map, parameters)) return wrong("tensorMaps");
  if (artifact.scratchBytes < 0) return wrong("scratchBytes");
  if (!isBetween(0, artifact.threads, kMaxThreads)) return wrong("threads");
  if (!isBetween(0, artifact.sharedBytes, INT_MAX)) return wrong("sharedBytes");
  if (!isBetween(1, artifact.clusterCtas, kMaxClusterCtas)) return wrong("clusterCtas");
  return {};
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
