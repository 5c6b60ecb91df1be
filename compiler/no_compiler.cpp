// In place of the compiler and all that needs LLVM, in a library that gets its kernels from bundles.

#include <stdexcept>

#include "compiler/base/version.h"
#include "compiler/compile.h"
#include "compiler/cpuid_target.h"

#include "compiler/base/sources_digest.inc"

/// What the functions of the DSL are there (tools/build/portable.bzl). Kernels are named and never built, so
/// nobody calls them.
extern "C" [[noreturn]] void tilewrightHasNoBodies() {
  throw std::logic_error("a kernel's body was built in a library that has no compiler");
}

namespace tilewright {
namespace {

Status noCompiler() { return userError("this library has no compiler; use the one that has"); }

} // namespace

bool hasCompiler() { return false; }

StatusOr<Artifact> compile(const Kernel &, const Target &, const CompileOptions &, const Environment &) {
  return noCompiler();
}
StatusOr<std::string> emit(const Kernel &, const Target &, const CompileOptions &, Stage,
                           const Environment &) {
  return noCompiler();
}
StatusOr<std::string> fingerprint(const Kernel &) { return noCompiler(); }

const std::string &compilerVersion() {
  static const std::string version = std::string("none, sources ") + TILEWRIGHT_SOURCES_DIGEST;
  return version;
}

Target hostTarget() { return cpuidTarget(); }
StatusOr<Target> namedProcessor(const std::string &) { return noCompiler(); }

} // namespace tilewright
