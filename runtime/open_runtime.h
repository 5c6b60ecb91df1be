#pragma once

#include <memory>
#include <string>

#include "runtime/runtime.h"

namespace tilewright {

/// As `Runtime::open`, with an environment of the caller's in place of the process's.
StatusOr<std::unique_ptr<Runtime>> openRuntime(Environment environment, const std::string &device,
                                               const std::string &target = "");

} // namespace tilewright
