#include "kernels/lce/search.h"

#include <algorithm>

#include "kernels/lce/tensors.h"
#include "kernels/lce/tiling.h"

namespace tilewright::lce {
namespace {

// What the kernels are tested with; larger blocks would only cost scratch.
constexpr int64_t kMaxBlockRows = 1024, kMaxBlockColumns = 2048, kMaxStep = 4096;
constexpr int64_t kStepUnit = 32, kMaxStages = 16, kMaxRaster = 1024, kMaxCluster = 2;
// What the CPU's lowering stages at once when a step of 0 leaves it the choice.
constexpr int64_t kChosenStep = 256;

using Roles = Schedule::WarpRoles;

/// A product of a call, and its sizes.
struct ProductSpec : ProductShape {
  const char *name;
  ProductKind kind;
};

/// Of a chunk of `chunk` rows; those whose result is wanted.
std::vector<ProductSpec> productsOf(const Scheme &scheme, int64_t chunk) {
  Config config;
  config.chunkRows = std::min(chunk, scheme.rows);
  std::vector<ProductSpec> products;
  const auto add = [&](const char *name, ProductKind kind) {
    products.push_back({shapeOf(scheme, kind, config), name, kind});
  };
  add("forward", ProductKind::forward);
  if (scheme.dHidden) add("dx", ProductKind::dHidden);
  if (scheme.dWeight) add("dw", ProductKind::dWeight);
  if (scheme.hasSecondPass) add("again", ProductKind::again);
  return products;
}

/// As a search sees a request: its variants are one scheme.
Scheme tunedScheme(const Request &request) { return schemeFor(request, Variant::chunked); }

std::string rowsOf(const ProductSpec &p) { return std::string(p.name) + "_rows"; }
std::string columnsOf(const ProductSpec &p) { return std::string(p.name) + "_columns"; }
std::string stepOf(const ProductSpec &p) { return std::string(p.name) + "_step"; }
std::string rolesOf(const ProductSpec &p) { return std::string(p.name) + "_roles"; }
std::string stagesOf(const ProductSpec &p) { return std::string(p.name) + "_stages"; }
std::string rasterOf(const ProductSpec &p) { return std::string(p.name) + "_raster"; }
std::string clusterOf(const ProductSpec &p) { return std::string(p.name) + "_cluster"; }

StatusOr<int64_t> read(const Configuration &configuration, const std::string &name, int64_t unit,
                       int64_t largest) {
  const std::optional<int64_t> value = configuration.integer(name);
  if (value && *value >= unit && *value <= largest && *value % unit == 0) return *value;
  return userError(name + ": expected a multiple of " + std::to_string(unit) + " from " +
                   std::to_string(unit) + " to " + std::to_string(largest) + " in " + configuration.str());
}

/// The same, or 0, which is meant where there is no such value.
StatusOr<int64_t> readOrNone(const Configuration &configuration, const std::string &name, int64_t unit,
                             int64_t largest) {
  if (!configuration.has(name) || configuration.integer(name) == 0) return int64_t(0);
  return read(configuration, name, unit, largest);
}

StatusOr<Product> readProduct(const Configuration &configuration, const ProductSpec &spec) {
  Product product;
  TW_ASSIGN_OR_RETURN(product.block.rows, read(configuration, rowsOf(spec), kRowStep, kMaxBlockRows));
  TW_ASSIGN_OR_RETURN(product.block.columns,
                      read(configuration, columnsOf(spec), kColumnStep, kMaxBlockColumns));
  TW_ASSIGN_OR_RETURN(product.contractionStep, readOrNone(configuration, stepOf(spec), kStepUnit, kMaxStep));
  TW_ASSIGN_OR_RETURN(const int64_t raster, readOrNone(configuration, rasterOf(spec), 1, kMaxRaster));
  product.rasterRows = static_cast<int>(raster);
  if (!configuration.has(rolesOf(spec))) return product;
  TW_ASSIGN_OR_RETURN(product.roles, parseWarpRoles(configuration.text(rolesOf(spec)).value_or("none")));
  TW_ASSIGN_OR_RETURN(const int64_t stages, readOrNone(configuration, stagesOf(spec), 1, kMaxStages));
  TW_ASSIGN_OR_RETURN(const int64_t cluster, readOrNone(configuration, clusterOf(spec), 1, kMaxCluster));
  product.stages = static_cast<int>(stages), product.clusterCtas = static_cast<int>(cluster);
  return product;
}

/// Products whose warps have roles need certain operands (`allowsRoles`); a user error where there are
/// others.
Status checkRoles(const Scheme &scheme, const ProductSpec &spec, const Product &product) {
  if (!hasRoles(product) || allowsRoles(scheme, spec.kind)) return {};
  return userError(rolesOf(spec) + ": expected aligned operands of 16 bits, or logits of TF32, which " +
                   warpRolesName(product.roles) + " warps copy, found others");
}

/// Slices of a second pass.
struct Member {
  const char *name;
  int64_t Config::*value;
};
constexpr Member kMembers[] = {{"slice_classes", &Config::sliceClasses},
                               {"borrowed_classes", &Config::borrowedClasses},
                               {"kept_classes", &Config::keptClasses}};

/// What is cut into slices, what dW's memory is used for, and the room for parts of dX.
Status readMemory(const Configuration &configuration, const Scheme &scheme, Config &config) {
  constexpr int64_t kMost = int64_t(1) << 31;
  for (const Member &member : kMembers) {
    if (!scheme.hasSecondPass) break;
    TW_ASSIGN_OR_RETURN(config.*member.value, readOrNone(configuration, member.name, kColumnStep, kMost));
  }
  if (scheme.hasSecondPass && config.sliceClasses == 0)
    return userError("slice_classes: expected a multiple of 32 in " + configuration.str());
  TW_ASSIGN_OR_RETURN(const int64_t tailBytes, readOrNone(configuration, "dx_tail_bytes", 1, kMostTailBytes));
  if (configuration.has("dx_tail_bytes")) config.tailBytes = tailBytes;
  config.inPlace = configuration.text("dw_sums") == "in_place";
  if (config.inPlace && !canAddInPlace(scheme))
    return userError("dw_sums: expected dW of 16 bits with aligned rows, and no margin, for in_place in " +
                     configuration.str());
  return {};
}

/// The heuristic value first, then those of `values` that a matrix of this size has a use for.
std::vector<ParameterValue> useful(int64_t heuristic, std::initializer_list<int64_t> values, int64_t size,
                                   int64_t unit) {
  std::vector<ParameterValue> kept = {heuristic};
  for (const int64_t value : values)
    kept.push_back(std::min(value, roundUp(size, unit)));
  return kept;
}

// ---- The cost model of the CPU -----------------------------------------------------------------------

// Moving one number into a packed panel costs as much as this many multiply-adds.
constexpr double kPackCost = 10;

/// A product in a configuration that is known to be readable.
struct Work {
  ProductSpec spec;
  Product product;

  int64_t programs() const {
    return ceilDiv(spec.rows, product.block.rows) * ceilDiv(spec.columns, product.block.columns);
  }
  int64_t step() const { return product.contractionStep > 0 ? product.contractionStep : kChosenStep; }
  double area() const { return static_cast<double>(product.block.rows * product.block.columns); }
};

using WorkRule = std::function<bool(const Work &)>;

class Rules {
public:
  Rules(const Scheme &scheme, const Config &heuristic, const DeviceInfo &device)
      : scheme_(scheme), heuristic_(heuristic), device_(device) {}

  std::vector<Work> worksOf(const Configuration &configuration) const {
    std::vector<Work> works;
    const StatusOr<Config> config = configOf(configuration, scheme_, device_);
    if (config.ok())
      for (const ProductSpec &spec : productsOf(scheme_, config->chunkRows))
        works.push_back({spec, (*config)[spec.kind]});
    return works;
  }

  /// A rule that excludes a configuration if it holds for one of its products.
  void prune(CostModel &model, std::string reason, WorkRule rule) const {
    model.prune(std::move(reason), [self = *this, rule = std::move(rule)](const Configuration &c) {
      const std::vector<Work> works = self.worksOf(c);
      return std::any_of(works.begin(), works.end(),
                         [&](const Work &work) { return !self.isHeuristic(work) && rule(work); });
    });
  }

private:
  /// A rule that excluded what all other parameters are tried with would exclude everything.
  bool isHeuristic(const Work &work) const { return work.product.str() == heuristic_[work.spec.kind].str(); }

  Scheme scheme_;
  Config heuristic_;
  DeviceInfo device_;
};

/// Accumulators and packed panels of one program.
double scratchBytes(const Work &work, ElementType element) {
  const Block &block = work.product.block;
  return 4 * work.area() + static_cast<double>((block.rows + block.columns) * work.step() *
                                               static_cast<int64_t>(elementBytes(element)));
}

/// Multiply-adds of all workers while the busiest one works, over those that are needed.
double excess(const Work &work, const DeviceInfo &device) {
  const double rounds = roundsOf(work.spec.kind, work.product, work.spec, device);
  return rounds * device.units * work.area() /
         (static_cast<double>(work.spec.rows) * static_cast<double>(work.spec.columns));
}

/// Multiply-adds of the busiest worker, and what else takes as long as some.
double estimate(const Work &work, int units) {
  const Block &block = work.product.block;
  const double perStep = work.area() + kPackCost * static_cast<double>(block.rows + block.columns);
  // Accumulators leave the registers and come back once a step, which costs about 8 multiply-adds.
  const double accumulators = 8 * work.area() / static_cast<double>(work.step());
  return static_cast<double>(ceilDiv(work.programs(), units) * work.spec.depth) * (perStep + accumulators);
}

/// Registers hold the accumulators, shared memory the stages of the operands.
void addGpuRules(CostModel &model, const Rules &rules, const Scheme &scheme, const DeviceInfo &device) {
  const int64_t shared = device.sharedBytes;
  rules.prune(model, "the accumulators would take all of a multiprocessor's registers",
              [scheme](const Work &work) {
                const Product &p = work.product;
                if (!hasRoles(p)) return work.area() > 128 * 256;
                const int64_t most = allowsLargeTiles(scheme, work.spec.kind) ? 192 : 128;
                return accumulatorsOf(p.block, p.roles) > most;
              });
  rules.prune(model, "two warpgroups cannot halve the tile", [](const Work &work) {
    const Product &p = work.product;
    return p.roles == Roles::cooperative && p.block.rows % 128 != 0 && p.block.columns % 128 != 0;
  });
  rules.prune(model, "sums of rows would go from one warpgroup to the other", [](const Work &work) {
    const Product &p = work.product;
    return work.spec.kind == ProductKind::forward && p.roles == Roles::cooperative && p.block.rows % 128 != 0;
  });
  rules.prune(model, "two warpgroups with so small a tile wait for operands", [](const Work &work) {
    return work.product.roles == Roles::cooperative && work.area() < 128 * 192;
  });
  rules.prune(model, "the stages exceed a program's shared memory", [=](const Work &work) {
    return hasRoles(work.product) && sharedBytesOf(scheme, work.spec.kind, work.product) > shared;
  });
  rules.prune(model, "one more stage would fit, and fewer than four do not hide the copies",
              [=](const Work &work) {
                Product more = work.product;
                ++more.stages;
                return hasRoles(work.product) && more.stages <= 4 &&
                       sharedBytesOf(scheme, work.spec.kind, more) <= shared;
              });
  model.setEstimate([=](const Configuration &c) {
    double sum = 0;
    for (const Work &work : rules.worksOf(c))
      sum += productTime(work.spec.kind, work.product, work.spec, device);
    return sum;
  });
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

Configuration configurationOf(const Config &config, const Request &request) {
  const Variant variant = config.variant == Variant::recompute ? Variant::recompute
                          : !request.wantsGradients()          ? Variant::lossOnly
                          : config.chunks(request) == 1        ? Variant::whole
                                                               : Variant::chunked;
  Configuration configuration{{"variant", variantName(variant)}, {"chunk_rows", config.chunkRows}};
  for (const Member &member : kMembers)
    if (config.*member.value) configuration.set(member.name, config.*member.value);
  if (config.inPlace) configuration.set("dw_sums", "in_place");
  if (config.tailBytes != kMostTailBytes) configuration.set("dx_tail_bytes", config.tailBytes);
  for (const ProductSpec &spec : productsOf(schemeFor(request, variant), config.chunkRows)) {
    const Product &product = config[spec.kind];
    configuration.set(rowsOf(spec), product.block.rows);
    configuration.set(columnsOf(spec), product.block.columns);
    configuration.set(stepOf(spec), product.contractionStep);
    if (product.rasterRows) configuration.set(rasterOf(spec), int64_t(product.rasterRows));
    if (product.roles == Roles::automatic) continue;
    configuration.set(rolesOf(spec), warpRolesName(product.roles));
    configuration.set(stagesOf(spec), int64_t(product.stages));
    configuration.set(clusterOf(spec), int64_t(product.clusterCtas));
  }
  return configuration;
}

StatusOr<Config> configOf(const Configuration &configuration, const Request &request,
                          const DeviceInfo &device) {
  Config config;
  TW_ASSIGN_OR_RETURN(config.variant, parseVariant(configuration.text("variant").value_or("none")));
  if ((config.variant == Variant::lossOnly) == request.wantsGradients() ||
      config.variant == Variant::automatic)
    return userError("variant: expected " +
                     std::string(request.wantsGradients() ? "chunked, whole or recompute" : "loss_only") +
                     " in " + configuration.str());
  const Scheme scheme = schemeFor(request, config.variant);
  TW_ASSIGN_OR_RETURN(const int64_t chunk, read(configuration, "chunk_rows", kRowStep, int64_t(1) << 31));
  config.chunkRows = config.variant == Variant::whole ? chunkBucket(std::max<int64_t>(request.rows, 1))
                                                      : balanced(request.rows, chunk);
  for (const ProductSpec &spec : productsOf(scheme, config.chunkRows)) {
    TW_ASSIGN_OR_RETURN(config[spec.kind], readProduct(configuration, spec));
    TW_RETURN_IF_ERROR(checkRoles(scheme, spec, config[spec.kind]));
  }
  TW_RETURN_IF_ERROR(readMemory(configuration, scheme, config));
  chooseTail(scheme, device, config);
  return config;
}

namespace {

/// What a GPU's portable code can do.
void addPortable(SearchSpace &space, const ProductSpec &spec, const Product &heuristic, int64_t rows) {
  space.add(rowsOf(spec), useful(heuristic.block.rows, {64, 128, 256}, rows, 64));
  space.add(columnsOf(spec), useful(heuristic.block.columns, {64, 128, 256}, spec.columns, 64));
  space.add(stepOf(spec), {heuristic.contractionStep, int64_t(32), int64_t(64)});
  space.add(rasterOf(spec), {int64_t(heuristic.rasterRows), int64_t(8), int64_t(16)});
}

/// What warps with roles can do: wgmma computes 64 rows a warpgroup, of which there are two.
void addWarpgroups(SearchSpace &space, const ProductSpec &spec, const Product &heuristic) {
  space.add(rowsOf(spec), {heuristic.block.rows, int64_t(128), int64_t(192), int64_t(256)});
  space.add(columnsOf(spec), {heuristic.block.columns, int64_t(128), int64_t(192), int64_t(256)});
  space.add(rolesOf(spec), {warpRolesName(Roles::pingPong), warpRolesName(Roles::cooperative)});
  space.add(stagesOf(spec), {int64_t(heuristic.stages), int64_t(3), int64_t(4), int64_t(5)});
  space.add(rasterOf(spec),
            {int64_t(heuristic.rasterRows), int64_t(4), int64_t(8), int64_t(12), int64_t(16)});
  space.add(clusterOf(spec), {int64_t(heuristic.clusterCtas), int64_t(1), int64_t(2)});
}

void addCpu(SearchSpace &space, const ProductSpec &spec, const Product &heuristic, int64_t rows) {
  space.add(rowsOf(spec), useful(heuristic.block.rows, {64, 128, 192, 256}, rows, kRowStep));
  space.add(columnsOf(spec),
            useful(heuristic.block.columns, {128, 192, 256, 384, 512, 768}, spec.columns, kColumnStep));
  space.add(stepOf(spec), {heuristic.contractionStep, int64_t(128), int64_t(512)});
}

} // namespace

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

CostModel costModel(const Request &request, const Config &heuristic, const DeviceInfo &device) {
  CostModel model;
  model.prune("a single chunk is the variant whole, several are chunked", [request](const Configuration &c) {
    const int64_t chunk = c.integer("chunk_rows").value_or(0);
    return request.wantsGradients() && (chunk >= request.rows) != (c.text("variant") == "whole");
  });
  const int64_t quarter = device.memoryBytes / 4;
  model.prune("the workspace takes more than a quarter of the device's memory",
              [request, device, quarter](const Configuration &c) {
                const StatusOr<Config> config = configOf(c, request, device);
                return config.ok() && workspaceBytes(schemeFor(request, config->variant), *config) > quarter;
              });

  const Scheme scheme = tunedScheme(request);
  const Rules rules(scheme, heuristic, device);
  const double cache = static_cast<double>(device.cacheBytes);
  const int units = device.units;
  rules.prune(model, "a program's accumulators and panels exceed the second-level cache",
              [=](const Work &work) { return cache > 0 && scratchBytes(work, request.element) > cache; });
  rules.prune(model, "workers idle, or compute what lies outside of the matrix, for a third of the time",
              [=](const Work &work) { return excess(work, device) > 1.5 && work.programs() > 1; });
  if (device.sharedBytes > 0) {
    addGpuRules(model, rules, scheme, device);
    return model;
  }
  rules.prune(model, "filling the panels costs more than a quarter of the multiply-adds",
              [](const Work &work) {
                const Block &block = work.product.block;
                return work.programs() > 1 &&
                       kPackCost * static_cast<double>(block.rows + block.columns) > 0.25 * work.area();
              });
  model.setEstimate([=](const Configuration &c) {
    double sum = 0;
    for (const Work &work : rules.worksOf(c))
      sum += estimate(work, units);
    return sum;
  });
  return model;
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
