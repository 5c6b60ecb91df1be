#pragma once

#include "compiler/base/status.h"
#include "runtime/cuda/driver_types.h"

namespace tilewright::cuda {

/// The functions of the CUDA driver, by their documented names. A test fills in functions of its own.
struct Driver {
#define TW_CUDA_FUNCTION(name, symbol, ...) CUresult (*name)(__VA_ARGS__) = nullptr;
#include "runtime/cuda/driver_symbols.inc"
#undef TW_CUDA_FUNCTION

  /// Ok, or an error of memory or of the device that names the call, the code, its name and meaning, and what
  /// to do.
  Status check(CUresult result, const char *call) const {
    return result == CUDA_SUCCESS ? Status() : error(result, call);
  }
  Status error(CUresult result, const char *call) const;
};

/// `TW_CUDA(driver, cuInit, 0)` calls the function and gives its outcome as a Status.
#define TW_CUDA(driver, function, ...) (driver).check((driver).function(__VA_ARGS__), #function)

/// This machine's driver: libcuda.so.1, opened and initialised at the first call in the process. An error
/// when there is none, it is too old, or it finds no device.
StatusOr<const Driver *> loadDriver();

/// What a person can do about a driver's error; empty when there is no better advice than its meaning.
const char *adviceFor(CUresult result);

} // namespace tilewright::cuda
