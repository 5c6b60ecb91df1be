#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "compiler/base/env.h"
#include "compiler/base/status.h"
#include "runtime/artifact_cache.h"
#include "runtime/bundles.h"
#include "runtime/call_status.h"
#include "runtime/device.h"
#include "runtime/kernel_cache.h"

namespace tilewright {

/// "cpu", "cuda" (the first GPU) or "cuda:INDEX"; "" is what TILEWRIGHT_DEVICE says, else "cpu". An error
/// says why the device is not to be had. Code is for `target`, as `parseTarget` takes it; "" is what
/// TILEWRIGHT_TARGET says if that is of the device's kind, else all that the device has.
StatusOr<std::unique_ptr<Device>> openDevice(const std::string &name = "", const std::string &target = "");

/// The names of this machine's devices: "cpu", and "cuda:0" … for the GPUs its driver finds.
std::vector<std::string> availableDevices();

/// How a kernel is made that is neither in memory, nor in a bundle, nor on disk. One thread calls these, and
/// only when needed. Both are empty where there is no compiler.
struct KernelSource {
  /// A digest of the kernel's body, so that an edited kernel never meets a stale artifact on disk.
  std::function<StatusOr<std::string>()> fingerprint;
  std::function<StatusOr<Artifact>()> compile;
};

/// What the caches did since the runtime was opened.
struct RuntimeCounters {
  int64_t compiled = 0;
  int64_t bundleHits = 0;
  int64_t diskHits = 0;
  int64_t memoryHits = 0;
  double compileMilliseconds = 0; ///< wall time in `KernelSource::compile`
  double diskMilliseconds =
      0; ///< wall time of the kernels that came from disk: fingerprint, read, check, load
};

/// A device, its loaded kernels, and the kernels on disk. Any thread may call it.
class Runtime {
public:
  /// Opens the named device (as `openDevice`) with the cache folder that the environment names. A folder that
  /// cannot be used is a warning when the first kernel is made, never an error.
  static StatusOr<std::unique_ptr<Runtime>> open(const std::string &device = "",
                                                 const std::string &target = "");

  /// Of `environment.bundles` it takes the files that are open already.
  Runtime(std::unique_ptr<Device> device, Environment environment,
          std::unique_ptr<const Bundles> bundles = nullptr);

  Device &device() { return *device_; }
  const Environment &environment() const { return environment_; }
  /// Null where none was named.
  const Bundles *bundles() const { return bundles_.get(); }
  /// What calls are planned for: the device, or the one that the bundles were exported for.
  const DeviceInfo &planningInfo() const { return bundles_ ? bundles_->device() : device_->info(); }

  /// The kernel from memory, else from a bundle, else from disk, else compiled; loaded on the device.
  StatusOr<KernelHandle> kernel(const KernelKey &key, const KernelSource &source);

  RuntimeCounters counters() const;

  /// Words for one run of a call. Those of a run that is done serve again once nobody holds them any more.
  /// Not for a run that is captured in a graph, whose replays would write them at any time.
  StatusOr<CallStatus> callStatus();

  /// The runtime's object of a type, which rooms above keep with it; made when it is first asked for.
  template <typename T> T &attached() {
    static const char key = 0;
    std::lock_guard<std::mutex> guard(attachedMutex_);
    std::shared_ptr<void> &object = attached_[&key];
    if (!object) object = std::make_shared<T>();
    return *static_cast<T *>(object.get());
  }

private:
  StatusOr<KernelHandle> make(const KernelKey &key, const KernelSource &source);
  StatusOr<KernelHandle> loadBundled(const Artifact &artifact);
  StatusOr<Artifact> timedCompile(const KernelSource &source);
  /// Null when kernels are not kept on disk.
  ArtifactCache *artifacts();

  std::unique_ptr<Device> device_;
  const Environment environment_;
  const std::unique_ptr<const Bundles> bundles_;
  KernelCache kernels_;
  std::once_flag artifactsOpened_;
  std::unique_ptr<ArtifactCache> artifacts_;
  mutable std::mutex countersMutex_;
  RuntimeCounters counters_; ///< memoryHits aside, which kernels_ counts
  std::mutex statusesMutex_;
  std::vector<CallStatus> statuses_;
  std::size_t nextStatus_ = 0;
  std::mutex attachedMutex_;
  std::map<const void *, std::shared_ptr<void>> attached_;
};

} // namespace tilewright
