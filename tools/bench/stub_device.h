#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "runtime/device.h"

namespace tilewright {

/// A device whose work costs nothing: launches, copies and fills are counted or left out, and every
/// allocation returns the same place. What is left of a call is the host's own time. Kernels are compiled and
/// loaded as on the device it wraps. Nothing may read what a call on it computes.
class StubDevice final : public Device {
public:
  /// `workspace` stands for every allocation.
  StubDevice(std::unique_ptr<Device> device, void *workspace)
      : device_(std::move(device)), workspace_(workspace) {}

  int64_t launches() const { return launches_; }

  const DeviceInfo &info() const override { return device_->info(); }
  const Target &target() const override { return device_->target(); }
  StatusOr<Buffer> allocate(std::size_t bytes, Stream) override { return Buffer(workspace_, bytes, nullptr); }
  Status copyToDevice(void *, const void *, std::size_t, Stream) override { return {}; }
  Status copyToHost(void *, const void *, std::size_t, Stream) override { return {}; }
  Status copy(void *, const void *, std::size_t, Stream) override { return {}; }
  Status fill(void *, int, std::size_t, Stream) override { return {}; }
  Status assemble(Artifact &artifact) override { return device_->assemble(artifact); }
  StatusOr<std::unique_ptr<LoadedKernel>> load(const Artifact &artifact) override {
    return device_->load(artifact);
  }
  Status launch(const LoadedKernel &, ArgumentSpan, Stream) override {
    ++launches_;
    return {};
  }
  Status synchronize(Stream) override { return {}; }
  bool isCapturing(Stream) const override { return false; }
  Status checkAddress(const void *, Stream) const override { return {}; }
  Status checkVisible(const void *) const override { return {}; }
  StatusOr<Buffer> allocateVisible(std::size_t bytes) override { return device_->allocateVisible(bytes); }
  StatusOr<double> time(Stream stream, const std::function<Status()> &work) override {
    return device_->time(stream, work);
  }
  StatusOr<int64_t> peakBytes(Stream stream, const std::function<Status()> &work) override {
    return device_->peakBytes(stream, work);
  }

private:
  std::unique_ptr<Device> device_;
  void *workspace_;
  int64_t launches_ = 0;
};

} // namespace tilewright
