#pragma once

#include "compiler/compile.h"

namespace tilewright::test {

/// A kernel for `target`, whose AMX instructions are calls of functions of this process that do what Intel's
/// manual says of them, so that any x86-64 processor runs it. What the manual forbids ends the test program.
StatusOr<Artifact> compileWithEmulatedTiles(const Kernel &kernel, const Target &target);

/// Multiplications of tiles (tdpbf16ps) that this thread has emulated.
int64_t emulatedProducts();

} // namespace tilewright::test
