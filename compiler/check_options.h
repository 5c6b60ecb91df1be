#pragma once

#include <cstddef>

#include "compiler/base/status.h"
#include "compiler/options.h"
#include "compiler/target.h"

namespace tilewright {

/// Whether a kernel whose grid has so many axes can be compiled for the target as `options` ask. A user error
/// names the first option that cannot be followed, with what was expected and what was found. What a target
/// has no use for, such as stages on a CPU, is ignored.
Status checkOptions(const Target &target, const CompileOptions &options, std::size_t gridAxes);

} // namespace tilewright
