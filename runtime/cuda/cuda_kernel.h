#pragma once

#include <memory>
#include <vector>

#include "runtime/cuda/handles.h"
#include "runtime/device.h"

namespace tilewright::cuda {

/// A kernel's code on a device, with all that its launches have in common.
class CudaKernel final : public LoadedKernel {
public:
  /// Takes the artifact's binary, or else assembles its PTX. `sharedLimit`: the shared memory, in bytes, that
  /// the device gives one program.
  static StatusOr<std::unique_ptr<LoadedKernel>> load(const std::shared_ptr<const Context> &context,
                                                      const Artifact &artifact, int64_t sharedLimit);

  Status launch(const std::vector<KernelArgument> &arguments, CUstream stream) const;

  bool isOf(const Context &context) const { return context_.get() == &context; }

  CudaKernel(Artifact artifact, std::shared_ptr<const Context> context, Module module, CUfunction function)
      : LoadedKernel(std::move(artifact)), context_(std::move(context)), module_(std::move(module)),
        function_(function) {}

private:
  const std::shared_ptr<const Context> context_;
  const Module module_;
  const CUfunction function_;
};

} // namespace tilewright::cuda
