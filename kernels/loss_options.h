#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/base/status.h"
#include "runtime/call_status.h"

namespace tilewright {

/// How the rows' losses become the result. `mean` divides by the number of rows that are not ignored.
enum class Reduction { mean, sum, none };

/// What the loss of a row is made of: −log p_y, or −p_y.
enum class Objective { logProb, prob };

/// How a loss is computed. `automatic` leaves the choice to the planner.
enum class Variant {
  automatic,
  chunked,   ///< exponentials of one chunk of rows at a time are kept in memory
  whole,     ///< one chunk holds every row
  recompute, ///< dX as chunked, then dW of all rows, a slice of the classes at a time, of logits computed
             ///< again; until then dW's memory serves as workspace
  lossOnly,  ///< no gradient: nothing of N×V elements is stored
};

/// Which part of a training step a call is.
enum class CallPass {
  fused,    ///< losses and all gradients that are asked for; with none, the forward call of a step
  backward, ///< gradients alone, from a forward call's lse; it may be run again, with other upstream
            ///< gradients
};

/// Labels with this value mark rows that take no part, unless an option says otherwise.
constexpr int64_t kDefaultIgnoreIndex = -100;

/// What a loss may be told, whatever its logits come from. With logits t, labels y, class weights u (1 where
/// none are given) and lse, p of the final logits z:
///
///     z = softcap(S t), softcap(t) = C tanh(t / C)
///     main_i = (1 − A) u_y (lse_i − z_iy) + (A / V) Σ_c u_c (lse_i − z_ic), or −p_iy
///     extra_i = Z lse_i²
///
/// `none`: main + extra of each row; `sum`: their sum; `mean`: Σ main / Σ u_y + Σ extra / number of rows.
/// Rows whose label is the ignore index take no part.
struct LossOptions {
  Reduction reduction = Reduction::mean;
  int64_t ignoreIndex = kDefaultIgnoreIndex;
  float labelSmoothing = 0;                 ///< A, 0 … 1
  float zLoss = 0;                          ///< Z, not negative
  float logitScale = 1;                     ///< S, not 0; 1 / temperature
  std::optional<float> softcap;             ///< C, positive
  Objective objective = Objective::logProb; ///< `prob`: neither smoothing nor class weights
};

/// Large margin cosine loss (LMCL, CosFace): z_ij = scale (cos(x_i, w_j) − margin [j = y_i]).
struct Margin {
  float margin = 0;
  float scale = 1; ///< positive
};

bool operator==(const LossOptions &a, const LossOptions &b);
inline bool operator==(const Margin &a, const Margin &b) {
  return a.margin == b.margin && a.scale == b.scale;
}

/// A user error names the first option that is out of range or does not go with another, and says why.
Status checkOptions(const LossOptions &options, bool hasClassWeights);
Status checkMargin(const Margin &margin, const LossOptions &options, bool hasBias);

/// What is monitored of a call's rows, those with the ignore index aside, in this order; 0 if there is none.
enum class Monitored {
  largestLogit,
  meanLogitNorm, ///< 2-norm of a row's logits
  meanEntropy,
  meanLseSquared,
  meanLse,
  accuracy, ///< share of rows whose largest logit (the first of them) is the label's
};
constexpr int64_t kMonitoredQuantities = 6;

const char *reductionName(Reduction reduction);
const char *objectiveName(Objective objective);
const char *variantName(Variant variant);
const char *monitoredName(Monitored quantity); ///< as in metrics.json: "largest_logit"

/// Read a name as the functions above write it ("automatic" is written `auto`); a user error lists the
/// choices.
StatusOr<Reduction> parseReduction(const std::string &name);
StatusOr<Objective> parseObjective(const std::string &name);
StatusOr<Variant> parseVariant(const std::string &name);

/// What a loss did, for people and for metrics.json.
struct LossReport {
  Variant variant = Variant::automatic;
  std::string configuration;      ///< the block shapes and chunk, on one line
  int64_t workspaceBytes = 0;     ///< device memory beside inputs and outputs
  double compileMilliseconds = 0; ///< until every kernel was at hand; near zero once cached in memory
  double runMilliseconds = 0;     ///< launches; on a device that runs them at once, also the work
  /// What the kernels found wrong with labels and class weights, once they have looked. None for a call that
  /// is captured in a graph: prepare it, and give it a status of your own.
  CallStatus status;
};

} // namespace tilewright
