#include "tests/support/ptx_interpreter.h"

#include <atomic>
#include <numeric>

#include "runtime/argument_slots.h"
#include "runtime/cuda/cuda_kernel.h"
#include "tests/support/ptx_execution.h"

namespace tilewright::test {
namespace {

using namespace ptx;

std::vector<uint64_t> parametersOf(ArgumentSpan arguments) {
  ArgumentSlots slots;
  for (const KernelArgument &argument : arguments)
    slots.append(argument);
  return {slots.data(), slots.data() + slots.count()};
}

std::deque<BoxMap> boxMapsOf(const Artifact &artifact, ArgumentSpan arguments) {
  std::deque<BoxMap> maps;
  for (const TensorMap &map : artifact.tensorMaps) {
    const auto &tensor = std::get<TensorRef>(arguments[map.parameter]);
    const auto bytes = static_cast<int64_t>(elementBytes(tensor.element));
    maps.push_back({static_cast<char *>(tensor.data), tensor.sizes[0], tensor.sizes[1],
                    tensor.rowStride * bytes, map.boxRows, map.boxColumns, bytes, map.roundsToTf32});
  }
  return maps;
}

void place(const Artifact &artifact, const std::array<uint32_t, 3> &grid,
           const std::array<uint32_t, 3> &number, Launch &launch) {
  Cta &cta = launch.ctas.emplace_back();
  cta.shared.assign(artifact.sharedBytes, '\xff');
  const bool hasWgmma = artifact.assembly.find("wgmma") != std::string::npos;
  if (hasWgmma || !artifact.tensorMaps.empty()) cta.unfenced.resize(artifact.sharedBytes);
  cta.number = number;
  cta.grid = grid;
  cta.threads = artifact.threads;
  cta.launch = &launch;
}

void joinClusters(Launch &launch, std::size_t size) {
  for (std::size_t i = 0; i < launch.ctas.size(); ++i)
    for (std::size_t first = i / size * size, j = first; j < first + size; ++j)
      launch.ctas[i].cluster.push_back(&launch.ctas.at(j));
}

/// Clusters one after the other; those of a persistent kernel, whose CTAs may wait for each other, together.
void runAll(const Program &program, const Artifact &artifact, const std::array<uint32_t, 3> &grid,
            bool landsLate) {
  const uint32_t size = artifact.clusterCtas, besides = artifact.persistent ? grid[0] : 1;
  for (uint32_t y = 0; y < grid[1]; y += artifact.persistent ? 1 : size)
    for (uint32_t x = 0; x < grid[0]; x += besides) {
      Launch launch;
      launch.landsLate = landsLate;
      for (uint32_t i = 0; i < (artifact.persistent ? besides : size); ++i)
        artifact.persistent ? place(artifact, grid, {x + i, y, 0}, launch)
                            : place(artifact, grid, {x, y + i, 0}, launch);
      joinClusters(launch, size);
      program.run(launch);
    }
}

} // namespace

Status interpretPtx(const Artifact &artifact, ArgumentSpan arguments) {
  constexpr int kMultiprocessors = 4;
  TW_ASSIGN_OR_RETURN(const Grid grid, gridFor(artifact, arguments));
  std::deque<BoxMap> maps = boxMapsOf(artifact, arguments);
  std::vector<uint64_t> parameters = parametersOf(arguments);
  const std::array<unsigned, 3> ctas = cuda::ctasFor(artifact, grid, kMultiprocessors);
  static std::atomic<unsigned> launches = 0;
  const unsigned launch = launches++;
  std::vector<int32_t> ranks(ctas[0] / artifact.clusterCtas); // the last cluster is the first, or
  std::iota(ranks.rbegin(), ranks.rend(), 0);                 // ranks are not known
  if (artifact.ranksClusters)
    parameters.push_back(launch & 2 ? reinterpret_cast<uintptr_t>(ranks.data()) : 0);
  for (const BoxMap &map : maps)
    parameters.push_back(reinterpret_cast<uintptr_t>(&map));
  try {
    runAll(Program(artifact.assembly, std::move(parameters)), artifact, ctas, launch & 1);
  } catch (const std::exception &error) {
    return internalError("PTX of kernel '" + artifact.kernel + "': " + error.what());
  }
  return {};
}

} // namespace tilewright::test
