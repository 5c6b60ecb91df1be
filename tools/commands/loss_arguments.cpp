#include "tools/commands/loss_arguments.h"

#include <fmt/format.h>

namespace tilewright {

std::vector<OptionSpec> lossOptionSpecs() {
  return {
      {"--bias", "b.npy", "V numbers, added to the products x·w; gives db.npy"},
      {"--class-weight", "c.npy",
       "V numbers, not negative: a row's loss is multiplied by its label's; mean divides by their sum"},
      {"--label-smoothing", "A",
       "0 (default) to 1: the share of the target that is spread evenly over all classes"},
      {"--z-loss", "Z", "adds Z·lse² to every row's loss (default 0)"},
      {"--logit-scale", "S", "the logits are S·(x·w + b) (default 1): 1/temperature"},
      {"--softcap", "C", "then C·tanh(logit/C) (default: none)"},
      {"--lmcl-margin", "M", "large margin cosine loss: logits s·(cos(x, w) - M at the label) (default 0)"},
      {"--lmcl-scale", "S", "its scale s (default 1); either option chooses this loss"},
      {"--objective", "NAME", "log_prob (default): -log p of the label; prob: -p"},
      {"--no-flush", "",
       "keeps probabilities below 2^-30 in gradients of bf16, where they are flushed to 0 (gradient "
       "filtering)",
       OptionSpec::Kind::flag},
      {"--metrics", "",
       "monitored quantities in metrics.json, and for each row entropy.npy, argmax.npy and correct.npy",
       OptionSpec::Kind::flag},
  };
}

Status readLossOptions(const Arguments &arguments, LossOptions &options, std::optional<Margin> &lmcl) {
  TW_ASSIGN_OR_RETURN(options.labelSmoothing, arguments.number("--label-smoothing", 0));
  TW_ASSIGN_OR_RETURN(options.zLoss, arguments.number("--z-loss", 0));
  TW_ASSIGN_OR_RETURN(options.logitScale, arguments.number("--logit-scale", 1));
  if (arguments.has("--softcap")) {
    TW_ASSIGN_OR_RETURN(options.softcap, arguments.number("--softcap", 0));
  }
  if (arguments.has("--lmcl-margin") || arguments.has("--lmcl-scale")) {
    Margin margin;
    TW_ASSIGN_OR_RETURN(margin.margin, arguments.number("--lmcl-margin", margin.margin));
    TW_ASSIGN_OR_RETURN(margin.scale, arguments.number("--lmcl-scale", margin.scale));
    lmcl = margin;
  }
  TW_ASSIGN_OR_RETURN(const std::string objective, arguments.choice("--objective", {"log_prob", "prob"}));
  TW_ASSIGN_OR_RETURN(options.objective, parseObjective(objective));
  return {};
}

StatusOr<std::vector<int64_t>> readShards(const Arguments &arguments) {
  constexpr int64_t kMost = 1024;
  std::vector<int64_t> shards;
  for (const std::string &text : arguments.list("--shards")) {
    const bool isNumber =
        !text.empty() && text.size() < 5 && text.find_first_not_of("0123456789") == std::string::npos;
    const int64_t count = isNumber ? std::stoll(text) : 0;
    if (count < 1 || count > kMost)
      return userError(fmt::format("expected --shards from 1 to {}, found {}", kMost, text));
    shards.push_back(count);
  }
  return shards;
}

} // namespace tilewright
