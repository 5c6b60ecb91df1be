#include "runtime/cuda/driver.h"

#include <dlfcn.h>

namespace tilewright::cuda {
namespace {

constexpr const char *kLibrary = "libcuda.so.1";

Status noDriver(const std::string &found, const std::string &toDo) {
  return noDeviceError("expected the CUDA driver, found " + found + "; " + toDo + ", or use the device cpu");
}

/// Every function of the list; the first that the library lacks is an error.
StatusOr<Driver> symbolsOf(void *library) {
  Driver driver;
  const char *missing = nullptr;
#define TW_CUDA_FUNCTION(name, symbol, ...)                                                                  \
  driver.name = reinterpret_cast<CUresult (*)(__VA_ARGS__)>(dlsym(library, #symbol));                        \
  if (!driver.name && !missing) missing = #symbol;
#define TW_CUDA_LATER_FUNCTION(name, symbol, ...)                                                            \
  driver.name = reinterpret_cast<CUresult (*)(__VA_ARGS__)>(dlsym(library, #symbol));
#include "runtime/cuda/driver_symbols.inc"
#undef TW_CUDA_FUNCTION
  if (!missing) return driver;
  return noDriver(std::string(kLibrary) + " without " + missing,
                  "install NVIDIA's driver 520 (CUDA 11.8) or later");
}

/// The library stays open for good: what it started does not end before the process does.
StatusOr<Driver> open() {
  void *library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library) return noDriver(dlerror(), "install NVIDIA's driver");
  TW_ASSIGN_OR_RETURN(Driver driver, symbolsOf(library));
  if (Status initialised = TW_CUDA(driver, cuInit, 0); !initialised.ok())
    return initialised.saying(initialised.message() + ", or use the device cpu");
  return driver;
}

std::string textOf(CUresult (*describe)(CUresult, const char **), CUresult result, const char *otherwise) {
  const char *text = nullptr;
  return describe && describe(result, &text) == CUDA_SUCCESS && text ? text : otherwise;
}

StatusKind kindOf(CUresult result) {
  switch (result) {
  case CUDA_ERROR_OUT_OF_MEMORY:
    return StatusKind::memory;
  case CUDA_ERROR_STUB_LIBRARY:
  case CUDA_ERROR_DEVICE_UNAVAILABLE:
  case CUDA_ERROR_NO_DEVICE:
  case CUDA_ERROR_INVALID_DEVICE:
  case CUDA_ERROR_SYSTEM_NOT_READY:
  case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
  case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    return StatusKind::noDevice;
  default:
    return StatusKind::device;
  }
}

} // namespace

Status Driver::error(CUresult result, const char *call) const {
  std::string message = std::string(call) + " failed with CUDA error " +
                        std::to_string(static_cast<int>(result)) + ", " +
                        textOf(cuGetErrorName, result, "of no known name") + " (" +
                        textOf(cuGetErrorString, result, "of no known meaning") + ")";
  if (const char *advice = adviceFor(result); *advice) message += std::string("; ") + advice;
  return {kindOf(result), std::move(message), static_cast<int>(result)};
}

StatusOr<const Driver *> loadDriver() {
  // Never destroyed: threads may make calls while the process ends.
  static const auto *const driver = new StatusOr<Driver>(open());
  if (!driver->ok()) return driver->status();
  return &**driver;
}

const char *adviceFor(CUresult result) {
  switch (result) {
  case CUDA_ERROR_OUT_OF_MEMORY:
    return "free device memory (nvidia-smi shows who holds it) or set a smaller workspace limit";
  case CUDA_ERROR_NOT_INITIALIZED:
    return "a process that was forked after CUDA was used cannot use it: start it with exec, or fork earlier";
  case CUDA_ERROR_DEINITIALIZED:
    return "the process is ending: release devices, kernels and buffers before main returns";
  case CUDA_ERROR_STUB_LIBRARY:
    return "the libcuda.so.1 that was found is the toolkit's stub: take its folder off LD_LIBRARY_PATH";
  case CUDA_ERROR_DEVICE_UNAVAILABLE:
    return "another process has the device for itself: wait for it, or name another device";
  case CUDA_ERROR_NO_DEVICE:
    return "see whether nvidia-smi lists a GPU and what CUDA_VISIBLE_DEVICES hides";
  case CUDA_ERROR_INVALID_IMAGE:
  case CUDA_ERROR_NO_BINARY_FOR_GPU:
    return "the machine code is damaged or for another GPU: compile the kernel again";
  case CUDA_ERROR_INVALID_CONTEXT:
  case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    return "the device was reset: open it again, and let nothing reset it while it is in use";
  case CUDA_ERROR_ECC_UNCORRECTABLE:
  case CUDA_ERROR_NVLINK_UNCORRECTABLE:
  case CUDA_ERROR_CONTAINED:
    return "the hardware failed: restart the process, and have the GPU checked if it happens again";
  case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    return "the driver is older than the code: install a newer one";
  case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    return "install the driver's libnvidia-ptxjitcompiler.so.1 beside libcuda.so.1";
  case CUDA_ERROR_JIT_COMPILATION_DISABLED:
    return "unset CUDA_DISABLE_PTX_JIT";
  case CUDA_ERROR_OPERATING_SYSTEM:
    return "see the kernel's log (dmesg) for what it refused";
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_LAUNCH_FAILED:
  case CUDA_ERROR_ASSERT:
    return "a kernel enqueued earlier went wrong and the process can no longer use the device: restart it, "
           "and "
           "run it under compute-sanitizer, which names the kernel and the access";
  case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    return "the kernel needs more registers or threads than the device has: use a smaller tile";
  case CUDA_ERROR_LAUNCH_TIMEOUT:
    return "the kernel ran longer than a GPU that drives a display allows: use a GPU without one";
  case CUDA_ERROR_SYSTEM_NOT_READY:
    return "see whether NVIDIA's fabric manager runs";
  case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
  case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    return "libcuda.so.1 and the kernel's NVIDIA module are of different versions: reboot, or take a CUDA "
           "compatibility folder off LD_LIBRARY_PATH";
  case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
  case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    return "while a stream is captured nothing may wait for it or use the default stream: pass the captured "
           "stream, and copy before or after the capture";
  case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
  case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
  case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
  case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
    return "an earlier call broke the capture: end it and capture again";
  default:
    return "";
  }
}

} // namespace tilewright::cuda
