#pragma once

#include <string>

namespace tilewright {

/// Changes whenever the compiler might generate other code from the same kernel: the release of LLVM and a
/// digest of the compiler's sources.
const std::string &compilerVersion();

} // namespace tilewright
