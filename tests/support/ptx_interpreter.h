#pragma once

#include <vector>

#include "compiler/artifact.h"
#include "compiler/base/status.h"
#include "runtime/device.h"

namespace tilewright::test {

/// Runs a kernel's PTX on the host, one CTA after the other, with tensors in the host's memory: what portable
/// code for a GPU computes, where there is none. A thread runs until an instruction that its warp or CTA
/// executes together. Copies are done when they are issued, so that a wait which is missing goes unseen.
/// A user error names an argument that does not fit; an internal one an instruction that is not known, an
/// access that is not aligned, and a warp whose threads have gone different ways where they should be
/// together.
Status interpretPtx(const Artifact &artifact, const std::vector<KernelArgument> &arguments);

} // namespace tilewright::test
