#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "compiler/base/status.h"
#include "runtime/device.h"

namespace tilewright {

/// Names one compiled kernel in one process: two kernels whose keys are equal have the same code.
struct KernelKey {
  std::string name;
  std::string specialisation; ///< everything the kernel's body depends on
  std::string options;        ///< CompileOptions::str()

  std::string str() const;
};

using KernelHandle = std::shared_ptr<const LoadedKernel>;

/// The kernels one device has loaded. However many threads ask for a key at once, one of them makes the
/// kernel and the others wait for it. A failure goes to all that waited; who asks later tries anew. Any
/// thread may call it.
class KernelCache {
public:
  using Make = std::function<StatusOr<KernelHandle>()>;
  StatusOr<KernelHandle> get(const KernelKey &key, const Make &make);

  /// Calls that found their kernel loaded, or being made by another thread.
  int64_t hits() const { return hits_; }

private:
  using Result = std::shared_future<StatusOr<KernelHandle>>;

  std::mutex mutex_; ///< guards kernels_; never held while a kernel is made
  std::unordered_map<std::string, Result> kernels_;
  std::atomic<int64_t> hits_{0};
};

} // namespace tilewright
