#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cuda/clock.h"
#include "runtime/cuda/context.h"
#include "runtime/cuda/describe_device.h"
#include "runtime/cuda/handles.h"
#include "runtime/cuda/ptxas.h"
#include "runtime/device.h"

namespace tilewright {

/// An NVIDIA GPU, in its primary context, so that memory and streams of CUDA's runtime and of frameworks may
/// be passed in. A stream is a CUstream (or cudaStream_t); null is the legacy default stream. Only copies,
/// `synchronize` and `time` wait for the device; what lies on the way of a launch does not, and may be
/// captured in a CUDA graph.
class CudaDevice final : public Device {
public:
  /// Device `index` of those that CUDA_VISIBLE_DEVICES leaves. `noDevice` when it is not there or too old.
  /// `driver` outlives all that comes from the device. `target` names what code is for; empty: all it has.
  /// Kernels are assembled by a `ptxas` in one of `toolFolders`, else by the driver.
  static StatusOr<std::unique_ptr<Device>> open(const cuda::Driver &driver, int index,
                                                cuda::PowerLimitReader powerLimit,
                                                const std::string &target = "",
                                                const std::vector<std::string> &toolFolders = {});

  const DeviceInfo &info() const override { return description_.info; }
  const Target &target() const override { return description_.target; }

  StatusOr<Buffer> allocate(std::size_t bytes, Stream stream) override;
  Status copyToDevice(void *destination, const void *source, std::size_t bytes, Stream stream) override;
  Status copyToHost(void *destination, const void *source, std::size_t bytes, Stream stream) override;
  Status copy(void *destination, const void *source, std::size_t bytes, Stream stream) override;
  Status fill(void *destination, int byte, std::size_t bytes, Stream stream) override;

  Status checkAddress(const void *address, Stream stream) const override;
  Status checkVisible(const void *address) const override;

  Status assemble(Artifact &artifact) override;
  StatusOr<std::unique_ptr<LoadedKernel>> load(const Artifact &artifact) override;
  Status launch(const LoadedKernel &kernel, ArgumentSpan arguments, Stream stream) override;
  Status synchronize(Stream stream) override;
  bool isCapturing(Stream stream) const override;
  StatusOr<Buffer> allocateVisible(std::size_t bytes) override;
  StatusOr<double> time(Stream stream, const std::function<Status()> &work) override;
  double clockMegahertz() override;
  StatusOr<int64_t> peakBytes(Stream stream, const std::function<Status()> &work) override;

  CudaDevice(std::shared_ptr<const cuda::Context> context, cuda::DeviceDescription description,
             cuda::CUmemoryPool pool, Buffer ranks, std::optional<cuda::Ptxas> ptxas)
      : context_(std::move(context)), description_(std::move(description)), pool_(pool),
        ranks_(std::move(ranks)), ptxas_(std::move(ptxas)) {}

private:
  /// By NVIDIA's own program; false where there is none, or it fails.
  bool assembledByProgram(Artifact &artifact);
  /// Waits for the stream, and returns the errors of its work.
  Status wait(cuda::CUstream stream);
  /// Of the pool that `allocate` takes from.
  StatusOr<uint64_t> poolStatistic(cuda::CUmemPool_attribute attribute) const;
  /// What the driver knows of an address.
  struct AddressFacts;
  StatusOr<AddressFacts> factsOf(const void *address) const;
  Status checkReached(const AddressFacts &facts) const;
  Status notReached(const std::string &found, const std::string &expected = "memory") const;
  Status notEnough(std::size_t bytes, const Status &cause) const;

  const std::shared_ptr<const cuda::Context> context_;
  const cuda::DeviceDescription description_;
  const cuda::CUmemoryPool pool_; ///< the device's default one, which is not ours to destroy
  const Buffer ranks_; ///< of clusters, for kernels that ask for them; empty where they are not known
  const std::optional<cuda::Ptxas> ptxas_;
  std::once_flag clockSought_;
  std::optional<cuda::ClockReader> clock_; ///< sought when someone asks
};

/// Device `index` of this machine's driver, for code of the named target (empty: all that it has). A user
/// error when there is no driver or no such device, or it does not run such code.
StatusOr<std::unique_ptr<Device>> openCudaDevice(int index, const std::string &target = "",
                                                 const std::vector<std::string> &toolFolders = {});

/// Devices of this machine's driver; 0 when there is none.
int cudaDeviceCount();

} // namespace tilewright
