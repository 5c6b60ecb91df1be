#include "compiler/base/version.h"

#include "llvm-c/Core.h"

#include "compiler/base/sources_digest.inc"

namespace tilewright {

const std::string &compilerVersion() {
  static const std::string version = [] {
    // Asked at run time: the shared library may be newer than the headers.
    unsigned major = 0, minor = 0, patch = 0;
    LLVMGetVersion(&major, &minor, &patch);
    return "llvm " + std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch) +
           " sources " + TILEWRIGHT_SOURCES_DIGEST;
  }();
  return version;
}

} // namespace tilewright
