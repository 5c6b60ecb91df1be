#include "kernels/loss_options.h"

#include <cstddef>

namespace tilewright {
namespace {

constexpr const char *kReductions[] = {"mean", "sum", "none"};
constexpr const char *kVariants[] = {"auto", "chunked", "whole", "loss_only"};

template <typename T, std::size_t n>
StatusOr<T> parseName(const std::string &name, const char *what, const char *const (&names)[n]) {
  std::string choices;
  for (std::size_t i = 0; i < n; ++i) {
    if (name == names[i]) return static_cast<T>(i);
    choices += (i ? ", " : "") + std::string(names[i]);
  }
  return userError(std::string("unknown ") + what + " '" + name + "'; choose one of " + choices);
}

} // namespace

const char *reductionName(Reduction reduction) { return kReductions[static_cast<int>(reduction)]; }
const char *variantName(Variant variant) { return kVariants[static_cast<int>(variant)]; }

StatusOr<Reduction> parseReduction(const std::string &name) {
  return parseName<Reduction>(name, "reduction", kReductions);
}
StatusOr<Variant> parseVariant(const std::string &name) {
  return parseName<Variant>(name, "variant", kVariants);
}

} // namespace tilewright
