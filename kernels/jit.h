#pragma once

#include <vector>

#include "compiler/base/status.h"
#include "compiler/dsl/builder.h"
#include "compiler/options.h"
#include "runtime/device.h"
#include "runtime/runtime.h"

namespace tilewright {

/// The kernel loaded on the runtime's device: from memory, else from disk, else compiled now. Fails with the
/// compiler's message when the kernel is wrong.
StatusOr<KernelHandle> jit(Runtime &runtime, const Kernel &kernel, const CompileOptions &options = {});

/// A kernel to make, and the options to make it with.
struct JitRequest {
  Kernel kernel;
  CompileOptions options;
};

/// Several kernels at once, in the order of the requests. Those that must be compiled are compiled side by
/// side.
StatusOr<std::vector<KernelHandle>> jitAll(Runtime &runtime, const std::vector<JitRequest> &requests);

/// Makes the kernel if need be and enqueues it; the arguments are in the order of its parameters. A tensor
/// that the device does not reach is a user error.
Status launch(Runtime &runtime, const Kernel &kernel, ArgumentSpan arguments, Stream stream);

} // namespace tilewright
