#pragma once

#include <array>
#include <memory>
#include <vector>

#include "runtime/cuda/describe_device.h"
#include "runtime/cuda/handles.h"
#include "runtime/cuda/tensor_map.h"
#include "runtime/device.h"

namespace tilewright::cuda {

/// CTAs along each axis of a launch. A persistent kernel counts its programs itself, and takes them in turn;
/// CTAs of a cluster take neighbours, here as if along axis 1: any number of clusters does all programs.
std::array<unsigned, 3> ctasFor(const Artifact &artifact, const Grid &grid, int multiprocessors);

/// A kernel's code on a device, with all that its launches have in common.
class CudaKernel final : public LoadedKernel {
public:
  /// Takes the artifact's binary, or else assembles its PTX. `device`: what the context's one is. `ranks`:
  /// i32 of as many clusters as fill it, see `rankClusters`; empty where they are not known.
  static StatusOr<std::unique_ptr<LoadedKernel>> load(const std::shared_ptr<const Context> &context,
                                                      const Artifact &artifact,
                                                      const DeviceDescription &device, Buffer ranks);

  Status launch(ArgumentSpan arguments, CUstream stream) const;

  bool isOf(const Context &context) const { return context_.get() == &context; }

  CudaKernel(Artifact artifact, std::shared_ptr<const Context> context, Module module, CUfunction function,
             const DeviceDescription &device, Buffer ranks);

private:
  /// Whether this launch may begin before the one ahead of it in its stream is done. Large products do not:
  /// their CTAs would begin wherever others end first, out of the order in which they share what they read.
  bool startsEarly(ArgumentSpan arguments) const;
  /// Address of the ranks, or null where the launch has another number of clusters.
  const void *ranksOf(unsigned clusters) const;

  const std::shared_ptr<const Context> context_;
  const Module module_;
  const CUfunction function_;
  const int multiprocessors_;
  const bool startsEarly_;
  const Buffer ranks_;
  std::vector<std::unique_ptr<TensorMapCache>> tensorMaps_; ///< in the artifact's order
};

} // namespace tilewright::cuda
