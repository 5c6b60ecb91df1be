#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace tilewright::test {

/// An H200, as far as the planner can tell.
inline DeviceInfo h200() {
  DeviceInfo info;
  info.name = info.fingerprint = "a fake H200";
  info.memoryBytes = int64_t(150754820096);
  info.units = 132;
  info.sharedBytes = 227 << 10;
  info.cacheBytes = 60 << 20;
  info.warpgroups = true;
  return info;
}

/// A device in host memory that counts what it is asked for and runs nothing: memory stays as it was
/// allocated, all bytes 0. It refuses artifacts whose binary begins with "refuse".
class FakeDevice final : public Device {
public:
  FakeDevice() = default;
  /// Code that is compiled for it is another device's.
  FakeDevice(DeviceInfo info, Target target) : info_(std::move(info)), target_(std::move(target)) {}

  const DeviceInfo &info() const override { return info_; }
  const Target &target() const override { return target_; }

  StatusOr<Buffer> allocate(std::size_t bytes, Stream) override {
    constexpr std::size_t kAlignment = 256; // as devices align what they allocate
    const std::size_t size = (bytes + kAlignment) / kAlignment * kAlignment;
    std::shared_ptr<void> memory(std::aligned_alloc(kAlignment, size), std::free);
    std::memset(memory.get(), 0, size);
    return Buffer(memory.get(), bytes, memory);
  }
  Status copyToDevice(void *destination, const void *source, std::size_t bytes, Stream) override {
    std::memcpy(destination, source, bytes);
    return {};
  }
  Status copyToHost(void *destination, const void *source, std::size_t bytes, Stream stream) override {
    return copyToDevice(destination, source, bytes, stream);
  }
  Status copy(void *destination, const void *source, std::size_t bytes, Stream stream) override {
    if (onCopy) onCopy(bytes);
    return copyToDevice(destination, source, bytes, stream);
  }
  Status fill(void *destination, int byte, std::size_t bytes, Stream) override {
    std::memset(destination, byte, bytes);
    return {};
  }
  StatusOr<std::unique_ptr<LoadedKernel>> load(const Artifact &artifact) override {
    ++loads;
    if (onLoad) onLoad(artifact);
    if (artifact.binary.rfind("refuse", 0) == 0) return runtimeError("the fake device refuses this binary");
    return std::make_unique<LoadedKernel>(artifact);
  }
  Status launch(const LoadedKernel &kernel, ArgumentSpan arguments, Stream) override {
    ++launches;
    TW_RETURN_IF_ERROR(gridFor(kernel.artifact(), arguments).status());
    return onLaunch ? onLaunch(kernel.artifact(), arguments) : Status();
  }
  Status synchronize(Stream) override { return {}; }
  bool isCapturing(Stream) const override { return false; }
  StatusOr<Buffer> allocateVisible(std::size_t bytes) override { return allocate(bytes, nullptr); }
  StatusOr<double> time(Stream, const std::function<Status()> &work) override {
    const double before = clock;
    TW_RETURN_IF_ERROR(work());
    return clock - before;
  }
  double clockMegahertz() override { return megahertz; }
  StatusOr<int64_t> peakBytes(Stream, const std::function<Status()> &work) override {
    TW_RETURN_IF_ERROR(work());
    return 0;
  }

  std::function<void(const Artifact &)> onLoad; ///< from any thread
  /// What it runs instead of nothing.
  std::function<Status(const Artifact &, ArgumentSpan)> onLaunch;
  std::function<void(std::size_t bytes)> onCopy; ///< between places in its memory
  std::atomic<int> loads{0};
  std::atomic<int> launches{0};
  double megahertz = 0;
  std::atomic<double> clock{0}; ///< milliseconds; stands still but for what a test's work adds

private:
  DeviceInfo info_{"fake", "fake", int64_t(1) << 30, 1, 0, ""};
  Target target_{TargetKind::cpu, "fake", ""};
};

} // namespace tilewright::test
