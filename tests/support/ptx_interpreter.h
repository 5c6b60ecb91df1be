#pragma once

#include <vector>

#include "compiler/artifact.h"
#include "compiler/base/status.h"
#include "runtime/device.h"

namespace tilewright::test {

/// Runs a kernel's PTX on the host, with tensors in the host's memory: what code for a GPU computes, where
/// there is none. It is a GPU of four multiprocessors. A thread runs until an instruction that its warp
/// executes together, or that has to wait. TMA's loads land at once, and in every other launch as late as can
/// be; its stores read as late as code lets them; operands of wgmma must still be there when it waits, and
/// what threads store for either needs a fence.proxy.async behind it. cp.async is done when it is issued, and
/// global memory is the same for all. A user error names an argument that does not fit; an internal one an
/// instruction that is not known, an access that is not aligned, a warp whose threads have gone different
/// ways where they should be together, and where all wait forever.
Status interpretPtx(const Artifact &artifact, ArgumentSpan arguments);

} // namespace tilewright::test
