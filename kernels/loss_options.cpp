#include "kernels/loss_options.h"

#include <tuple>

#include <cmath>
#include <cstddef>
#include <cstdio>

namespace tilewright {

bool operator==(const LossOptions &a, const LossOptions &b) {
  const auto fields = [](const LossOptions &o) {
    return std::tie(o.reduction, o.ignoreIndex, o.labelSmoothing, o.zLoss, o.logitScale, o.softcap,
                    o.objective);
  };
  return fields(a) == fields(b);
}
namespace {

constexpr const char *kReductions[] = {"mean", "sum", "none"};
constexpr const char *kObjectives[] = {"log_prob", "prob"};
constexpr const char *kMonitoredNames[] = {"largest_logit",    "mean_logit_norm", "mean_entropy",
                                           "mean_lse_squared", "mean_lse",        "accuracy"};
static_assert(sizeof kMonitoredNames / sizeof *kMonitoredNames == kMonitoredQuantities);
constexpr const char *kVariants[] = {"auto", "chunked", "whole", "recompute", "loss_only"};

template <typename T, std::size_t n>
StatusOr<T> parseName(const std::string &name, const char *what, const char *const (&names)[n]) {
  std::string choices;
  for (std::size_t i = 0; i < n; ++i) {
    if (name == names[i]) return static_cast<T>(i);
    choices += (i ? ", " : "") + std::string(names[i]);
  }
  return userError(std::string("unknown ") + what + " '" + name + "'; choose one of " + choices);
}

Status expected(const char *option, const char *what, float found) {
  char number[32];
  std::snprintf(number, sizeof number, "%g", static_cast<double>(found));
  return userError(std::string(option) + " must be " + what + ", found " + number);
}

} // namespace

Status checkOptions(const LossOptions &o, bool hasClassWeights) {
  if (!(o.labelSmoothing >= 0 && o.labelSmoothing <= 1))
    return expected("label smoothing", "from 0 to 1", o.labelSmoothing);
  if (!(o.zLoss >= 0 && std::isfinite(o.zLoss)))
    return expected("z-loss", "a finite number that is not negative", o.zLoss);
  if (!(o.logitScale != 0 && std::isfinite(o.logitScale)))
    return expected("logit scale", "a finite number other than 0, for all logits would be 0", o.logitScale);
  if (o.softcap && !(*o.softcap > 0 && std::isfinite(*o.softcap)))
    return expected("softcap", "positive and finite; leave it unset for none", *o.softcap);
  if (o.objective == Objective::logProb) return Status();
  if (o.labelSmoothing > 0)
    return userError("objective prob goes with no label smoothing: -p_y looks at the target alone");
  if (hasClassWeights) return userError("objective prob goes with no class weights: -p_y has none");
  return Status();
}

Status checkMargin(const Margin &margin, const LossOptions &o, bool hasBias) {
  if (!std::isfinite(margin.margin)) return expected("LMCL's margin", "finite", margin.margin);
  if (!(margin.scale > 0 && std::isfinite(margin.scale)))
    return expected("LMCL's scale", "positive and finite", margin.scale);
  if (hasBias) return userError("LMCL goes with no bias: its logits are cosines");
  if (o.softcap) return userError("LMCL goes with no softcap: its logits are bounded by its scale");
  if (o.logitScale != 1) return userError("LMCL goes with no logit scale: it has a scale of its own");
  return Status();
}

const char *reductionName(Reduction reduction) { return kReductions[static_cast<int>(reduction)]; }
const char *objectiveName(Objective objective) { return kObjectives[static_cast<int>(objective)]; }
const char *monitoredName(Monitored quantity) { return kMonitoredNames[static_cast<int>(quantity)]; }
const char *variantName(Variant variant) { return kVariants[static_cast<int>(variant)]; }

StatusOr<Reduction> parseReduction(const std::string &name) {
  return parseName<Reduction>(name, "reduction", kReductions);
}
StatusOr<Objective> parseObjective(const std::string &name) {
  return parseName<Objective>(name, "objective", kObjectives);
}
StatusOr<Variant> parseVariant(const std::string &name) {
  return parseName<Variant>(name, "variant", kVariants);
}

} // namespace tilewright
