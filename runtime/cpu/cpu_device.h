#pragma once

#include <memory>
#include <mutex>

#include "runtime/cpu/thread_pool.h"
#include "runtime/device.h"

namespace tilewright {

/// The processor this process runs on. Its memory is the process's own, its stream is null, and every call
/// returns when its work is done.
class CpuDevice final : public Device {
public:
  /// Threads that share a launch, callers included; 0: one for each core this process may use.
  /// `target` is a processor whose code this one runs.
  explicit CpuDevice(int threads = 0, Target target = hostTarget());

  const DeviceInfo &info() const override { return info_; }
  const Target &target() const override { return target_; }

  StatusOr<Buffer> allocate(std::size_t bytes, Stream stream) override;
  Status copyToDevice(void *destination, const void *source, std::size_t bytes, Stream stream) override;
  Status copyToHost(void *destination, const void *source, std::size_t bytes, Stream stream) override;
  Status copy(void *destination, const void *source, std::size_t bytes, Stream stream) override;
  Status fill(void *destination, int byte, std::size_t bytes, Stream stream) override;

  StatusOr<std::unique_ptr<LoadedKernel>> load(const Artifact &artifact) override;
  Status launch(const LoadedKernel &kernel, ArgumentSpan arguments, Stream stream) override;
  Status synchronize(Stream stream) override;
  bool isCapturing(Stream) const override { return false; }
  StatusOr<Buffer> allocateVisible(std::size_t bytes) override;
  StatusOr<double> time(Stream stream, const std::function<Status()> &work) override;
  int64_t lastCacheBytes() const override;
  StatusOr<int64_t> peakBytes(Stream stream, const std::function<Status()> &work) override;

private:
  const Target target_;
  ThreadPool pool_;
  DeviceInfo info_;
  mutable std::once_flag lastCacheSought_; ///< when someone asks: the system's answer is in many files
  mutable int64_t lastCacheBytes_ = 0;
};

} // namespace tilewright
