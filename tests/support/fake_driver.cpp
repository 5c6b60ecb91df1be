#include "tests/support/fake_driver.h"

#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "runtime/cuda/placement.h"

namespace tilewright::test {

using namespace cuda;

namespace {

FakeDriver *theFake = nullptr;
thread_local std::vector<CUcontext> contexts; ///< of this thread, the current one last
char primary, pool, function, probe;

constexpr CUdevice kDevice = 40; ///< of index 0

bool needsContext(const std::string &name) {
  for (const char *prefix :
       {"cuInit", "cuDriver", "cuGetError", "cuDevice", "cuCtx", "cuMemPool", "cuThread"})
    if (name.rfind(prefix, 0) == 0) return false;
  return true;
}

thread_local CUstreamCaptureMode captureMode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/// In a capture: what becomes part of the graph, and what touches no work at all.
bool isCapturable(const std::string &name) {
  for (const char *known : {"cuMemAllocAsync", "cuMemFreeAsync", "cuMemcpyDtoDAsync", "cuMemsetD8Async",
                            "cuLaunchKernelEx", "cuStreamIsCapturing", "cuTensorMapEncodeTiled",
                            "cuThreadExchangeStreamCaptureMode", "cuPointerGetAttributes"})
    if (name == known) return true;
  return name.rfind("cuCtx", 0) == 0 || name.rfind("cuGetError", 0) == 0;
}

template <typename T> T fresh(std::set<void *> &alive) {
  void *object = std::malloc(1);
  alive.insert(object);
  return static_cast<T>(object);
}

} // namespace

/// What the functions do, once it is clear that they do not fail.
struct FakeFunctions {
  FakeDriver &fake;

  /// Of what takes its turn in a stream. As the driver of an H200 answers while another stream is captured.
  CUresult takeTurn(const char *name, CUstream stream) {
    if (!fake.captured || stream == *fake.captured) return CUDA_SUCCESS;
    const bool waits = !stream && fake.capturedBlocks;
    const bool isLaunch = std::string(name) == "cuLaunchKernelEx";
    if (!waits && (isLaunch || captureMode == CU_STREAM_CAPTURE_MODE_RELAXED)) return CUDA_SUCCESS;
    fake.mistakes.push_back(std::string(name) + " on another stream than the captured one");
    return waits ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }

  /// Of what waits for a stream. Streams that are not captured may be waited for, the default one if it does
  /// not wait for the captured one.
  CUresult wait(const char *name, CUstream stream) {
    if (!fake.captured || (stream != *fake.captured && !(fake.capturedBlocks && !stream)))
      return CUDA_SUCCESS;
    fake.mistakes.push_back(std::string(name) + " while a stream is captured");
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }

  CUresult release(std::set<void *> &alive, void *object) {
    if (!alive.erase(object)) {
      fake.mistakes.push_back("an object was destroyed that is not alive");
      return CUDA_ERROR_INVALID_VALUE;
    }
    std::free(object);
    return CUDA_SUCCESS;
  }

  CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
  CUresult cuDriverGetVersion(int *version) { return *version = fake.version, CUDA_SUCCESS; }
  CUresult cuGetErrorName(CUresult result, const char **name) {
    *name = result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : nullptr;
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  CUresult cuGetErrorString(CUresult result, const char **text) {
    *text = result == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : nullptr;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }

  CUresult cuDeviceGetCount(int *count) { return *count = fake.deviceCount, CUDA_SUCCESS; }
  CUresult cuDeviceGet(CUdevice *device, int index) { return *device = kDevice + index, CUDA_SUCCESS; }
  CUresult cuDeviceGetName(char *text, int bytes, CUdevice) {
    std::strncpy(text, fake.deviceName.c_str(), bytes);
    return CUDA_SUCCESS;
  }
  CUresult cuDeviceTotalMem(std::size_t *bytes, CUdevice) { return *bytes = fake.memoryBytes, CUDA_SUCCESS; }
  CUresult cuDeviceGetPCIBusId(char *text, int bytes, CUdevice) {
    std::strncpy(text, "0000:01:00.0", bytes);
    return CUDA_SUCCESS;
  }
  CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice) {
    const std::map<int, int> values = {{CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
                                       {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
                                       {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2619000},
                                       {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 52428800},
                                       {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, fake.major},
                                       {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, fake.minor},
                                       {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
                                       {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, fake.memoryPools},
                                       {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, fake.pageableMemory}};
    return *value = values.at(attribute), CUDA_SUCCESS;
  }

  CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) {
    ++fake.retained;
    return *context = fake.primaryContext(), CUDA_SUCCESS;
  }
  CUresult cuDevicePrimaryCtxRelease(CUdevice) { return --fake.retained, CUDA_SUCCESS; }
  CUresult cuCtxGetCurrent(CUcontext *context) { return *context = FakeDriver::current(), CUDA_SUCCESS; }
  CUresult cuCtxPushCurrent(CUcontext context) { return contexts.push_back(context), CUDA_SUCCESS; }
  CUresult cuCtxPopCurrent(CUcontext *context) {
    *context = FakeDriver::current();
    return contexts.pop_back(), CUDA_SUCCESS;
  }
  CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    return std::swap(*mode, captureMode), CUDA_SUCCESS;
  }

  CUresult cuDeviceGetMemPool(CUmemoryPool *found, CUdevice) {
    return *found = reinterpret_cast<CUmemoryPool>(&pool), CUDA_SUCCESS;
  }
  uint64_t &poolValue(CUmemPool_attribute attribute) {
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) return fake.releaseThreshold;
    return attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ? fake.usedBytes : fake.mostUsedBytes;
  }
  CUresult cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute attribute, void *value) {
    return *static_cast<uint64_t *>(value) = poolValue(attribute), CUDA_SUCCESS;
  }
  CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute attribute, void *value) {
    poolValue(attribute) = *static_cast<uint64_t *>(value);
    fake.mostUsedBytes = std::max(fake.mostUsedBytes, fake.usedBytes);
    return CUDA_SUCCESS;
  }
  CUresult cuMemAllocAsync(CUdeviceptr *address, std::size_t bytes, CUstream stream) {
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > fake.memoryBytes) return CUDA_ERROR_OUT_OF_MEMORY;
    if (const CUresult refused = takeTurn("cuMemAllocAsync", stream)) return refused;
    constexpr std::size_t kAlignment = 256; // a GPU's
    *address = reinterpret_cast<CUdeviceptr>(
        std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
    fake.memory[*address] = stream;
    fake.sizes[*address] = bytes;
    if (fake.captured && stream == *fake.captured) fake.ofGraphs.insert(*address);
    fake.usedBytes += bytes;
    fake.mostUsedBytes = std::max(fake.mostUsedBytes, fake.usedBytes);
    return CUDA_SUCCESS;
  }
  CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    auto found = fake.memory.find(address);
    if (found == fake.memory.end() || found->second != stream) {
      fake.mistakes.push_back("memory was freed that is not alive, or on another stream");
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (const CUresult refused = takeTurn("cuMemFreeAsync", stream)) return refused;
    fake.memory.erase(found);
    fake.ofGraphs.erase(address);
    fake.usedBytes -= fake.sizes[address];
    fake.sizes.erase(address);
    std::free(reinterpret_cast<void *>(address));
    return CUDA_SUCCESS;
  }
  CUresult cuMemAlloc(CUdeviceptr *address, std::size_t bytes) {
    void *memory = std::malloc(bytes);
    fake.deviceMemory.insert(memory);
    return *address = reinterpret_cast<CUdeviceptr>(memory), CUDA_SUCCESS;
  }
  CUresult cuMemFree(CUdeviceptr address) {
    return release(fake.deviceMemory, reinterpret_cast<void *>(address));
  }
  /// Nothing where the driver does not know the address.
  std::optional<FakePointer> pointerAt(CUdeviceptr address) const {
    if (auto found = fake.pointers.find(reinterpret_cast<void *>(address)); found != fake.pointers.end())
      return found->second;
    if (fake.ofGraphs.count(address)) return std::nullopt; // as the driver answers
    if (isIn(fake.sizes, address)) return FakePointer();
    if (isIn(fake.hostSizes, address)) return FakePointer{CU_MEMORYTYPE_HOST};
    return std::nullopt;
  }
  static bool isIn(const std::map<CUdeviceptr, std::size_t> &sizes, CUdeviceptr address) {
    const auto above = sizes.upper_bound(address);
    return above != sizes.begin() && address < std::prev(above)->first + std::prev(above)->second;
  }
  CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **values,
                                  CUdeviceptr address) {
    const std::optional<FakePointer> found = pointerAt(address);
    for (unsigned i = 0; i < count; ++i)
      switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned *>(values[i]) = found ? static_cast<unsigned>(found->type) : 0;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *static_cast<CUdeviceptr *>(values[i]) = found && found->reached ? address : 0;
        break;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<unsigned *>(values[i]) = found && found->managed;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int *>(values[i]) = found ? found->ordinal : -2; // as the driver answers
        break;
      }
    return CUDA_SUCCESS;
  }
  CUresult cuMemHostAlloc(void **memory, std::size_t bytes, unsigned) {
    *memory = std::malloc(bytes);
    fake.hostSizes[reinterpret_cast<CUdeviceptr>(*memory)] = bytes;
    return fake.hostMemory.insert(*memory), CUDA_SUCCESS;
  }
  CUresult cuMemFreeHost(void *memory) {
    fake.hostSizes.erase(reinterpret_cast<CUdeviceptr>(memory));
    return release(fake.hostMemory, memory);
  }
  CUresult cuMemGetInfo(std::size_t *free, std::size_t *total) {
    *free = 1000;
    return *total = fake.memoryBytes, CUDA_SUCCESS;
  }
  CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, std::size_t bytes, CUstream stream) {
    if (const CUresult refused = wait("cuMemcpyHtoDAsync", stream)) return refused;
    return std::memcpy(reinterpret_cast<void *>(to), from, bytes), CUDA_SUCCESS;
  }
  CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    if (const CUresult refused = wait("cuMemcpyDtoHAsync", stream)) return refused;
    return std::memcpy(to, reinterpret_cast<const void *>(from), bytes), CUDA_SUCCESS;
  }
  CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
    std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
    return CUDA_SUCCESS;
  }
  CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, std::size_t bytes, CUstream) {
    return std::memset(reinterpret_cast<void *>(to), byte, bytes), CUDA_SUCCESS;
  }

  CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    if (fake.captured && fake.capturedBlocks && !stream) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = fake.captured == stream ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  }
  CUresult cuStreamSynchronize(CUstream stream) { return wait("cuStreamSynchronize", stream); }
  CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    if (flags != CU_STREAM_NON_BLOCKING) fake.mistakes.push_back("a stream that waits for the default one");
    return *stream = static_cast<CUstream>(fresh<void *>(fake.streams)), CUDA_SUCCESS;
  }
  CUresult cuStreamDestroy(CUstream stream) { return release(fake.streams, stream); }
  CUresult cuEventCreate(CUevent *event, unsigned) {
    return *event = static_cast<CUevent>(fresh<void *>(fake.events)), CUDA_SUCCESS;
  }
  CUresult cuEventDestroy(CUevent event) { return release(fake.events, event); }
  CUresult cuEventRecord(CUevent, CUstream) { return CUDA_SUCCESS; }
  CUresult cuEventSynchronize(CUevent) {
    return fake.captured ? wait("cuEventSynchronize", *fake.captured) : CUDA_SUCCESS;
  }
  CUresult cuEventElapsedTime(float *milliseconds, CUevent, CUevent) {
    return *milliseconds = 1.5f, CUDA_SUCCESS;
  }

  CUresult cuLinkCreate(unsigned, CUjit_option *, void **values, CUlinkState *state) {
    *state = static_cast<CUlinkState>(fresh<void *>(fake.links));
    fake.linking_[*state].errorLog = static_cast<char *>(values[0]);
    return CUDA_SUCCESS;
  }
  CUresult cuLinkAddData(CUlinkState state, CUjitInputType, void *data, std::size_t bytes, const char *,
                         unsigned, CUjit_option *, void **) {
    auto &link = fake.linking_[state];
    fake.assembled = link.ptx = std::string(static_cast<const char *>(data), bytes);
    if (link.ptx.find("nonsense") == std::string::npos) return CUDA_SUCCESS;
    std::strcpy(link.errorLog, "ptxas application ptx input, line 3; error: nonsense\n");
    return CUDA_ERROR_INVALID_PTX;
  }
  CUresult cuLinkComplete(CUlinkState state, void **cubin, std::size_t *bytes) {
    auto &link = fake.linking_[state];
    link.cubin = fakeCubin(link.ptx);
    *bytes = link.cubin.size();
    return *cubin = link.cubin.data(), CUDA_SUCCESS;
  }
  CUresult cuLinkDestroy(CUlinkState state) {
    fake.linking_.erase(state);
    return release(fake.links, state);
  }

  CUresult cuModuleLoadData(CUmodule *module, const void *) {
    return *module = static_cast<CUmodule>(fresh<void *>(fake.modules)), CUDA_SUCCESS;
  }
  CUresult cuModuleUnload(CUmodule module) { return release(fake.modules, module); }
  CUresult cuModuleGetFunction(CUfunction *found, CUmodule, const char *name) {
    char &kernel = name == std::string(kPlacementProbe) ? probe : function;
    return *found = reinterpret_cast<CUfunction>(&kernel), CUDA_SUCCESS;
  }
  CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction) {
    const std::map<int, int> values = {{CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, fake.maxThreads},
                                       {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, fake.staticShared},
                                       {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 0},
                                       {CU_FUNC_ATTRIBUTE_NUM_REGS, 64}};
    return *value = values.at(attribute), CUDA_SUCCESS;
  }
  CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int value) {
    return fake.dynamicSharedAttribute = value, CUDA_SUCCESS;
  }
  CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction kernel, void **parameters, void **) {
    if (const CUresult refused = takeTurn("cuLaunchKernelEx", config->hStream)) return refused;
    FakeLaunch launch{*config, {config->attrs, config->attrs + config->numAttrs}, {}};
    if (kernel == reinterpret_cast<CUfunction>(&probe)) {
      fake.probes_.push_back(std::move(launch));
      if (fake.onProbe) fake.onProbe(*config, parameters);
      return CUDA_SUCCESS;
    }
    for (std::size_t i = 0; i < fake.parameterBytes.size(); ++i) {
      const char *bytes = static_cast<const char *>(parameters[i]);
      launch.parameters.emplace_back(bytes, bytes + fake.parameterBytes[i]);
    }
    fake.launches_.push_back(std::move(launch));
    if (fake.onLaunch) fake.onLaunch(*config, parameters);
    return CUDA_SUCCESS;
  }

  CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, uint32_t rank, void *address,
                                  const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
                                  const uint32_t *steps, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                  CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    const auto at = reinterpret_cast<uintptr_t>(address);
    const bool good = reinterpret_cast<uintptr_t>(map) % 64 == 0 && rank == 2 && at && at % 16 == 0 &&
                      sizes[0] && sizes[1] && strides[0] % 16 == 0 && strides[0] > 0 && box[0] && box[1] &&
                      box[0] <= 256 && box[1] <= 256 && steps[0] == 1 && steps[1] == 1 &&
                      swizzle == CU_TENSOR_MAP_SWIZZLE_128B;
    if (!good) return CUDA_ERROR_INVALID_VALUE;
    *map = {{at, sizes[0], sizes[1], strides[0], box[0], box[1], static_cast<uint64_t>(type)}};
    return CUDA_SUCCESS;
  }

  CUresult enter(const char *name) {
    fake.calls_.push_back(name);
    if (fake.captured && !isCapturable(name) && captureMode == CU_STREAM_CAPTURE_MODE_GLOBAL) {
      fake.mistakes.push_back(std::string(name) + " while a stream is captured");
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (auto failure = fake.failures_.find(name); failure != fake.failures_.end()) return failure->second;
    return needsContext(name) && !FakeDriver::current() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
  }

  template <typename Argument> void noteStream(const char *name, Argument argument) {
    if constexpr (std::is_same_v<Argument, CUstream>) fake.streamsUsed_.emplace(name, argument);
    if constexpr (std::is_same_v<Argument, const CUlaunchConfig *>)
      fake.streamsUsed_.emplace(name, argument->hStream);
  }

  /// The driver's function for one of the above.
  template <auto Member> struct Entry;
  template <typename... Arguments, CUresult (FakeFunctions::*Member)(Arguments...)> struct Entry<Member> {
    static inline const char *name = nullptr;
    static CUresult call(Arguments... arguments) {
      std::lock_guard<std::recursive_mutex> guard(theFake->mutex_);
      FakeFunctions functions{*theFake};
      (functions.noteStream(name, arguments), ...);
      const CUresult entered = functions.enter(name);
      return entered == CUDA_SUCCESS ? (functions.*Member)(arguments...) : entered;
    }
  };
};

std::string fakeCubin(const std::string &contents) {
  std::string header(64, '\0');
  header.replace(0, 4, "\177ELF");
  header[18] = static_cast<char>(190);
  return header + contents;
}

FakeDriver::FakeDriver() {
#define TW_CUDA_FUNCTION(function, symbol, ...)                                                              \
  FakeFunctions::Entry<&FakeFunctions::function>::name = #function;                                          \
  table_.function = FakeFunctions::Entry<&FakeFunctions::function>::call;
#include "runtime/cuda/driver_symbols.inc"
#undef TW_CUDA_FUNCTION
  theFake = this;
}

FakeDriver::~FakeDriver() {
  for (auto *alive : {&modules, &events, &links, &hostMemory, &deviceMemory, &streams})
    for (void *object : *alive)
      std::free(object);
  for (auto &[address, stream] : memory)
    std::free(reinterpret_cast<void *>(address));
  contexts.clear();
  theFake = nullptr;
}

std::vector<std::string> FakeDriver::calls() const {
  std::lock_guard<std::recursive_mutex> guard(mutex_);
  return calls_;
}

void FakeDriver::forgetCalls() {
  std::lock_guard<std::recursive_mutex> guard(mutex_);
  calls_.clear();
  streamsUsed_.clear();
}

std::multimap<std::string, CUstream> FakeDriver::streamsUsed() const {
  std::lock_guard<std::recursive_mutex> guard(mutex_);
  return streamsUsed_;
}

std::vector<FakeLaunch> FakeDriver::probes() const {
  std::lock_guard<std::recursive_mutex> guard(mutex_);
  return probes_;
}

std::vector<FakeLaunch> FakeDriver::launches() const {
  std::lock_guard<std::recursive_mutex> guard(mutex_);
  return launches_;
}

void FakeDriver::fail(const std::string &function, CUresult result) {
  std::lock_guard<std::recursive_mutex> guard(mutex_);
  if (result == CUDA_SUCCESS)
    failures_.erase(function);
  else
    failures_[function] = result;
}

void FakeDriver::setCurrent(CUcontext context) {
  contexts.clear();
  if (context) contexts.push_back(context);
}

CUcontext FakeDriver::current() { return contexts.empty() ? nullptr : contexts.back(); }

CUcontext FakeDriver::primaryContext() { return reinterpret_cast<CUcontext>(&primary); }

} // namespace tilewright::test
