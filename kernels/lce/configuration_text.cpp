#include "kernels/lce/configuration_text.h"

#include "kernels/lce/plan.h"
#include "kernels/lce/product_cost.h"
#include "kernels/lce/product_spec.h"
#include "kernels/lce/tensors.h"
#include "kernels/lce/tiling.h"

namespace tilewright::lce {
namespace {

// The kernels are tested up to these; larger blocks would only need more scratch memory.
constexpr int64_t kMaxBlockRows = 1024, kMaxBlockColumns = 2048, kMaxStep = 4096;
constexpr int64_t kStepUnit = 32, kMaxStages = 16, kMaxRaster = 1024, kMaxCluster = 2;

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
  const int64_t columnStep = configuration.has(rolesOf(spec)) ? kRoleColumnStep : kColumnStep;
  TW_ASSIGN_OR_RETURN(product.block.columns,
                      read(configuration, columnsOf(spec), columnStep, kMaxBlockColumns));
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
  return userError(rolesOf(spec) +
                   ": expected aligned operands of 16 bits, or TF32 without recompute, which " +
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

} // namespace

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
    if (product.roles == Schedule::WarpRoles::automatic) continue;
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
  config.chunkRows = config.variant == Variant::whole
                         ? ChunkSizes(request).holding(std::max<int64_t>(request.rows, 1))
                         : ChunkSizes(request).balanced(request.rows, chunk);
  for (const ProductSpec &spec : productsOf(scheme, config.chunkRows)) {
    TW_ASSIGN_OR_RETURN(config[spec.kind], readProduct(configuration, spec));
    TW_RETURN_IF_ERROR(checkRoles(scheme, spec, config[spec.kind]));
  }
  TW_RETURN_IF_ERROR(readMemory(configuration, scheme, config));
  chooseTail(scheme, device, config);
  return config;
}

} // namespace tilewright::lce
