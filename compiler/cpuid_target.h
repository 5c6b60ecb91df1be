#pragma once

#include "compiler/target.h"

namespace tilewright {

/// The processor this process runs on, as it says itself. Of LLVM's features it has those alone whose
/// instructions a kernel's code may use; no name. For a library without LLVM, which compiles nothing.
Target cpuidTarget();

/// Whether it is one of the features that `cpuidTarget` speaks of.
bool mayBeInKernels(const std::string &feature);

} // namespace tilewright
