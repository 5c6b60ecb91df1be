#pragma once

#include <string>

#include "compiler/artifact.h"
#include "runtime/disk/entry.h"

namespace tilewright::test {

/// A small artifact with something in every field.
inline Artifact sampleArtifact(const std::string &kernel = "scale") {
  Artifact artifact;
  artifact.kernel = kernel;
  artifact.target = "cpu fake";
  artifact.parameters = {{Parameter::Kind::view, "x", ElementType::bf16, 2, false},
                         {Parameter::Kind::view, "y", ElementType::f32, 1, true},
                         {Parameter::Kind::index, "n", ElementType::f32, 0, false},
                         {Parameter::Kind::float32, "alpha", ElementType::f32, 0, false}};
  artifact.grid = {{0, 0, 64}, {0, 1, 16}};
  artifact.scratchBytes = 4096;
  artifact.threads = 128;
  artifact.sharedBytes = 98304;
  artifact.tensorMaps = {{0, 128, 64}};
  artifact.persistent = true;
  artifact.clusterCtas = 2;
  artifact.startsEarly = true;
  artifact.ranksClusters = true;
  artifact.binary = std::string("code \0\1\2\3 of ", 13) + kernel;
  artifact.assembly = "ret";
  artifact.compileMilliseconds = 12.34;
  return artifact;
}

inline ArtifactKey sampleKey(const std::string &kernel = "scale") {
  return {{kernel, "bf16 64x16", "optLevel=2"}, "0123abcd", "cpu fake", "llvm 19 sources 4567", ""};
}

/// Everything but the time its compilation took.
inline bool sameCode(const Artifact &a, const Artifact &b) {
  auto sameParameters = [&] {
    for (std::size_t i = 0; i < a.parameters.size(); ++i) {
      const Parameter &p = a.parameters[i], &q = b.parameters[i];
      if (p.kind != q.kind || p.name != q.name || p.element != q.element || p.rank != q.rank ||
          p.written != q.written)
        return false;
    }
    return true;
  };
  auto sameGrid = [&] {
    for (std::size_t i = 0; i < a.grid.size(); ++i)
      if (a.grid[i].parameter != b.grid[i].parameter || a.grid[i].dim != b.grid[i].dim ||
          a.grid[i].block != b.grid[i].block)
        return false;
    return true;
  };
  auto sameTensorMaps = [&] {
    for (std::size_t i = 0; i < a.tensorMaps.size(); ++i)
      if (a.tensorMaps[i].parameter != b.tensorMaps[i].parameter ||
          a.tensorMaps[i].boxRows != b.tensorMaps[i].boxRows ||
          a.tensorMaps[i].boxColumns != b.tensorMaps[i].boxColumns)
        return false;
    return true;
  };
  return a.kernel == b.kernel && a.target == b.target && a.parameters.size() == b.parameters.size() &&
         sameParameters() && a.grid.size() == b.grid.size() && sameGrid() &&
         a.scratchBytes == b.scratchBytes && a.threads == b.threads && a.sharedBytes == b.sharedBytes &&
         a.tensorMaps.size() == b.tensorMaps.size() && sameTensorMaps() && a.persistent == b.persistent &&
         a.clusterCtas == b.clusterCtas && a.startsEarly == b.startsEarly &&
         a.ranksClusters == b.ranksClusters && a.binary == b.binary && a.assembly == b.assembly;
}

} // namespace tilewright::test
