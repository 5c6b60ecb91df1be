#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/cuda/driver.h"

namespace tilewright::test {

/// A launch as the driver was asked for it.
struct FakeLaunch {
  cuda::CUlaunchConfig config = {};
  std::vector<cuda::CUlaunchAttribute> attributes;
  std::vector<std::vector<char>> parameters;

  template <typename T> T parameter(std::size_t index) const {
    T value{};
    if (parameters.at(index).size() == sizeof value)
      std::memcpy(&value, parameters[index].data(), sizeof value);
    return value;
  }
};

/// What the driver knows of a place in memory.
struct FakePointer {
  cuda::CUmemorytype type = cuda::CU_MEMORYTYPE_DEVICE;
  int ordinal = 0; ///< index of the device it is for
  bool managed = false;
  bool reached = true; ///< by kernels of the device
};

/// Bytes that pass for a cubin.
std::string fakeCubin(const std::string &contents);

/// A CUDA driver whose device is host memory: it notes every call, runs no kernel, counts what it has given
/// out, and fails on demand. Calls that need a current context fail without one, as the real driver's do. Any
/// thread may call it. One lives at a time; the functions of `table()` reach that one.
class FakeDriver {
public:
  FakeDriver();
  ~FakeDriver();

  const cuda::Driver &table() const { return table_; }

  /// Names of the functions called since the last `forgetCalls`, in order.
  std::vector<std::string> calls() const;
  void forgetCalls();
  /// Streams that calls since the last `forgetCalls` were given, by the functions' names.
  std::multimap<std::string, cuda::CUstream> streamsUsed() const;
  std::vector<FakeLaunch> launches() const;
  /// Launches by which the device finds out about itself; they are not among the others.
  std::vector<FakeLaunch> probes() const;
  /// From now on `function` does nothing and returns `result`; CUDA_SUCCESS mends it.
  void fail(const std::string &function, cuda::CUresult result);
  /// The calling thread's current context, as a framework in the same process would set it.
  static void setCurrent(cuda::CUcontext context);
  static cuda::CUcontext current();
  cuda::CUcontext primaryContext();

  // What the one device is.
  int deviceCount = 1;
  std::string deviceName = "Fake GPU";
  int major = 9, minor = 0, version = 13000, memoryPools = 1, pageableMemory = 0;
  std::size_t memoryBytes = std::size_t(80) << 30;
  std::vector<std::size_t> parameterBytes;                         ///< of every kernel
  int maxThreads = 1024, staticShared = 0;                         ///< of every kernel
  uint64_t releaseThreshold = 0, usedBytes = 0, mostUsedBytes = 0; ///< of the pool
  /// The one stream that is captured, in the mode that allows least. A call that such a capture forbids fails
  /// and is a mistake.
  std::optional<cuda::CUstream> captured;
  bool capturedBlocks = true; ///< whether that one and the default stream wait for each other
  /// What kernels do, if anything.
  std::function<void(const cuda::CUlaunchConfig &config, void **parameters)> onLaunch;
  std::function<void(const cuda::CUlaunchConfig &config, void **parameters)> onProbe;
  /// Memory that did not come from this driver's functions, by its first byte.
  std::map<const void *, FakePointer> pointers;

  // What is alive.
  int retained = 0; ///< of the primary context
  std::set<void *> modules, events, links, hostMemory, deviceMemory, streams;
  std::map<cuda::CUdeviceptr, cuda::CUstream> memory; ///< and the stream it was asked for on
  std::map<cuda::CUdeviceptr, std::size_t> sizes;     ///< of the same
  std::set<cuda::CUdeviceptr> ofGraphs;               ///< those of it that a capture allocated
  std::map<cuda::CUdeviceptr, std::size_t> hostSizes; ///< of `hostMemory`
  int dynamicSharedAttribute = 0;
  std::string assembled;             ///< the PTX that was linked last
  std::vector<std::string> mistakes; ///< frees of what is not alive, and the like

private:
  friend struct FakeFunctions;

  cuda::Driver table_;
  mutable std::recursive_mutex mutex_; ///< held in every call
  std::vector<std::string> calls_;
  std::multimap<std::string, cuda::CUstream> streamsUsed_;
  std::vector<FakeLaunch> launches_, probes_;
  std::map<std::string, cuda::CUresult> failures_;
  struct Link {
    char *errorLog = nullptr; ///< where it wants messages
    std::string ptx, cubin;
  };
  std::map<cuda::CUlinkState, Link> linking_; ///< several threads may link at once
};

} // namespace tilewright::test
