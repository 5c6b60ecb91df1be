#pragma once

#include <memory>
#include <string>

#include "runtime/cuda/context.h"

namespace tilewright::cuda {

/// PTX to a cubin for the context's device, by the driver's own assembler. A compile error carries what the
/// assembler wrote about `kernel`.
StatusOr<std::string> assemblePtx(const std::shared_ptr<const Context> &context, const std::string &kernel,
                                  const std::string &ptx);

} // namespace tilewright::cuda
