#pragma once

#include "autotune/tunable.h"
#include "kernels/lce/config.h"

namespace tilewright::lce {

/// A configuration as named parameters, which can be printed, stored and pinned. One of a single chunk is
/// called `whole`, one of several `chunked`.
Configuration configurationOf(const Config &config, const Request &request);
/// The reverse. A user error where a value is missing or more than the kernels can do: records may come from
/// anywhere.
StatusOr<Config> configOf(const Configuration &configuration, const Request &request,
                          const DeviceInfo &device);

} // namespace tilewright::lce
