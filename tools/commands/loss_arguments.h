#pragma once

#include <optional>
#include <vector>

#include "kernels/loss_options.h"
#include "tools/cli/arguments.h"

namespace tilewright {

/// The command line's options for what a loss computes, beside its reduction and ignore index.
std::vector<OptionSpec> lossOptionSpecs();

/// Reads them; whether they are in range and go together is for `checkOptions` and `checkMargin` to say.
Status readLossOptions(const Arguments &arguments, LossOptions &options, std::optional<Margin> &lmcl);

/// `--shards R`, given any number of times, also not at all: into how many shards the classes are cut.
StatusOr<std::vector<int64_t>> readShards(const Arguments &arguments);

} // namespace tilewright
