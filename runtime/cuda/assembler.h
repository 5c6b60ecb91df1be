#pragma once

#include <memory>
#include <string>

#include "compiler/artifact.h"
#include "runtime/cuda/context.h"

namespace tilewright::cuda {

/// Whether a kernel without a binary is handed to the driver as PTX each time it is loaded, as one whole
/// program. What `assemblePtx` makes could be linked with other code, so its threads have fixed numbers of
/// registers, and warps with roles of their own could not trade them. (The driver keeps what it makes of PTX
/// in a cache of its own.)
bool isLoadedAsPtx(const Artifact &artifact);

/// PTX to a cubin for the context's device, by the driver's own assembler. A compile error carries what the
/// assembler wrote about `kernel`.
StatusOr<std::string> assemblePtx(const std::shared_ptr<const Context> &context, const std::string &kernel,
                                  const std::string &ptx);

} // namespace tilewright::cuda
