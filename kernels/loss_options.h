#pragma once

#include <cstdint>
#include <string>

#include "compiler/base/status.h"

namespace tilewright {

/// How the rows' losses become the result. `mean` divides by the number of rows that are not ignored.
enum class Reduction { mean, sum, none };

/// How a loss is computed. `automatic` leaves the choice to the planner.
enum class Variant {
  automatic,
  chunked,  ///< exponentials of one chunk of rows at a time are kept in memory
  whole,    ///< one chunk holds every row
  lossOnly, ///< no gradient: nothing of N×V elements is stored
};

/// Labels with this value mark rows that take no part, unless an option says otherwise.
constexpr int64_t kDefaultIgnoreIndex = -100;

const char *reductionName(Reduction reduction);
const char *variantName(Variant variant);

/// Read a name as the functions above write it ("automatic" is written `auto`); a user error lists the
/// choices.
StatusOr<Reduction> parseReduction(const std::string &name);
StatusOr<Variant> parseVariant(const std::string &name);

/// What a loss did, for people and for metrics.json.
struct LossReport {
  Variant variant = Variant::automatic;
  std::string configuration;      ///< the block shapes and chunk, on one line
  int64_t workspaceBytes = 0;     ///< device memory beside inputs and outputs
  double compileMilliseconds = 0; ///< until every kernel was at hand; near zero once cached in memory
  double runMilliseconds = 0;     ///< launches; on a device that runs them at once, also the work
};

} // namespace tilewright
