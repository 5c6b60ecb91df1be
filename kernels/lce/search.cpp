#include "kernels/lce/search.h"

#include <algorithm>

#include "kernels/lce/product_spec.h"
#include "kernels/lce/tensors.h"
#include "kernels/lce/tiling.h"

namespace tilewright::lce {
namespace {

using Roles = Schedule::WarpRoles;

/// The heuristic value first, then those of `values` that a matrix of this size has a use for.
std::vector<ParameterValue> useful(int64_t heuristic, std::initializer_list<int64_t> values, int64_t size,
                                   int64_t unit) {
  std::vector<ParameterValue> kept = {heuristic};
  for (const int64_t value : values)
    kept.push_back(std::min(value, roundUp(size, unit)));
  return kept;
}

/// What a GPU's portable code can do.
void addPortable(SearchSpace &space, const ProductSpec &spec, const Product &heuristic, int64_t rows) {
  space.add(rowsOf(spec), useful(heuristic.block.rows, {64, 128, 256}, rows, 64));
  space.add(columnsOf(spec), useful(heuristic.block.columns, {64, 128, 256}, spec.columns, 64));
  space.add(stepOf(spec), {heuristic.contractionStep, int64_t(32), int64_t(64)});
  space.add(rasterOf(spec), {int64_t(heuristic.rasterRows), int64_t(8), int64_t(16)});
}

/// What warps with roles can do: wgmma computes 64 rows a warpgroup, of which there are two. Rasters are
/// those that were best for some head of public models on an H200 (MEASUREMENTS.md, "A sweep of
/// configurations").
void addWarpgroups(SearchSpace &space, const ProductSpec &spec, const Product &heuristic) {
  space.add(rowsOf(spec), {heuristic.block.rows, int64_t(128), int64_t(192), int64_t(256)});
  space.add(columnsOf(spec), {heuristic.block.columns, int64_t(128), int64_t(192), int64_t(256)});
  space.add(rolesOf(spec), {warpRolesName(Roles::pingPong), warpRolesName(Roles::cooperative)});
  space.add(stagesOf(spec), {int64_t(heuristic.stages), int64_t(3), int64_t(4), int64_t(5)});
  space.add(rasterOf(spec), {int64_t(heuristic.rasterRows), int64_t(1), int64_t(2), int64_t(4), int64_t(6),
                             int64_t(8), int64_t(11), int64_t(12), int64_t(16)});
  space.add(clusterOf(spec), {int64_t(heuristic.clusterCtas), int64_t(1), int64_t(2)});
}

void addCpu(SearchSpace &space, const ProductSpec &spec, const Product &heuristic, int64_t rows) {
  space.add(rowsOf(spec), useful(heuristic.block.rows, {64, 128, 192, 256, 384, 512}, rows, kRowStep));
  space.add(columnsOf(spec),
            useful(heuristic.block.columns, {128, 192, 256, 384, 512, 768}, spec.columns, kColumnStep));
  const int64_t other = heuristic.contractionStep ? 256 : 512;
  space.add(stepOf(spec), {heuristic.contractionStep, int64_t(128), other});
}

} // namespace

TuningKey tuningKey(const Request &request, const DeviceInfo &device) {
  const auto typeName = [](const std::optional<ElementType> &type) {
    return std::string(type ? elementName(*type) : "none");
  };
  TuningKey key{device.fingerprint,
                "linear_cross_entropy",
                {{"rows", sizeBucket(request.rows)},
                 {"hidden", request.hidden},
                 {"classes", request.classes},
                 {"type", request.typeName()},
                 {"dx", typeName(request.dHidden)},
                 {"dw", typeName(request.dWeight)},
                 {"reduction", request.reduction == Reduction::none ? "none" : "scalar"}}};
  if (device.warpgroups) key.problem.set("aligned", request.aligned ? "yes" : "no");
  return key;
}

SearchSpace searchSpace(const Request &request, const Config &heuristic, const DeviceInfo &device) {
  const Scheme scheme = tunedScheme(request);
  SearchSpace space;
  std::vector<ParameterValue> chunks = {heuristic.chunkRows};
  for (const int64_t bytes :
       {16 * kChunkBytes, 4 * kChunkBytes, 2 * kChunkBytes, kChunkBytes, kChunkBytes / 2, kChunkBytes / 4})
    chunks.push_back(largestChunk(scheme, heuristic.variant, bytes));
  if (device.sharedBytes > 0) {
    chunks.resize(2);
    for (const int64_t bytes : {32 * kChunkBytes, 48 * kChunkBytes, 64 * kChunkBytes, 8 * kChunkBytes})
      chunks.push_back(largestChunk(scheme, heuristic.variant, bytes));
  }
  space.add("chunk_rows", chunks);
  if (request.wantsGradients())
    space.add("variant", {variantName(Variant::chunked), variantName(Variant::whole)});
  for (const ProductSpec &spec : productsOf(scheme, heuristic.chunkRows)) {
    const Product &product = heuristic[spec.kind];
    // dX's and the forward product's rows are a chunk's, whose size is searched too.
    const int64_t rows = spec.kind == ProductKind::dWeight ? spec.rows : request.rows;
    if (hasRoles(product))
      addWarpgroups(space, spec, product);
    else if (device.sharedBytes > 0)
      addPortable(space, spec, product, rows);
    else
      addCpu(space, spec, product, rows);
  }
  return space;
}

std::vector<ProductStep> productSteps(const Request &request, const Config &heuristic) {
  std::vector<ProductStep> steps;
  for (const ProductSpec &spec : productsOf(tunedScheme(request), request.rows)) {
    steps.push_back(
        {spec.name, spec.kind, {rowsOf(spec), columnsOf(spec), stepOf(spec), rolesOf(spec), stagesOf(spec)}});
    if (hasRoles(heuristic[spec.kind]))
      steps.push_back({std::string(spec.name) + " order", spec.kind, {rasterOf(spec), clusterOf(spec)}});
    else if (heuristic[spec.kind].rasterRows)
      steps.push_back({std::string(spec.name) + " order", spec.kind, {rasterOf(spec)}});
  }
  return steps;
}

std::optional<Config> tunedConfig(const TuningRecord &record, const Request &request, Variant variant,
                                  int64_t workspaceLimit, const DeviceInfo &device) {
  const auto fits = [&](const MeasuredConfiguration &winner) {
    const StatusOr<Config> config = configOf(winner.configuration, request, device);
    if (!config.ok() || (variant == Variant::whole && config->chunks(request) > 1)) return false;
    return workspaceLimit == 0 ||
           workspaceBytes(schemeFor(request, config->variant), *config) <= workspaceLimit;
  };
  const MeasuredConfiguration *winner = chooseWinner(record, workspaceLimit, fits);
  if (!winner) return std::nullopt;
  Config config = *configOf(winner->configuration, request, device);
  if (variant != Variant::automatic && request.wantsGradients()) config.variant = variant;
  fitToOptions(schemeFor(request, config.variant), device, config);
  return config;
}

} // namespace tilewright::lce
