#include "runtime/disk/artifact_json.h"

#include <climits>

namespace tilewright {
namespace {

using nlohmann::json;

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

} // namespace

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

} // namespace tilewright
