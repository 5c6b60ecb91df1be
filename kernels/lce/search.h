#pragma once

#include <optional>
#include <vector>

#include "kernels/lce/configuration_text.h"
#include "kernels/lce/plan.h"

namespace tilewright::lce {

/// The scheme that a search works with: its variants all have the same products.
inline Scheme tunedScheme(const Request &request) { return schemeFor(request, Variant::chunked); }

/// The key of a request's tuning record. Rows are bucketed; everything else that changes the time is exact.
TuningKey tuningKey(const Request &request, const DeviceInfo &device);

/// Chunks and the products' blocks and schedules. The values of `heuristic` are among those to try.
SearchSpace searchSpace(const Request &request, const Config &heuristic, const DeviceInfo &device);

/// Some of a product's parameters, which are searched with the product alone: its tile and schedule, then the
/// order in which tiles are taken.
struct ProductStep {
  std::string name;
  ProductKind kind;
  std::vector<std::string> parameters;
};
std::vector<ProductStep> productSteps(const Request &request, const Config &heuristic);
/// And what is then searched with whole calls.
inline std::vector<std::string> chunkParameters() { return {"variant", "chunk_rows"}; }

/// Its rules do not judge products as `heuristic` has them.
CostModel costModel(const Request &request, const Config &heuristic, const DeviceInfo &device);

/// The winner that a record offers under this limit (0: none; see `chooseWinner`) and that is of this
/// variant, if there is one; see `fitToOptions`.
std::optional<Config> tunedConfig(const TuningRecord &record, const Request &request, Variant variant,
                                  int64_t workspaceLimit, const DeviceInfo &device);

} // namespace tilewright::lce
