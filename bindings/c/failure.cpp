#include "bindings/c/failure.h"

#include <atomic>
#include <cstdlib>

#include <unistd.h>

/// An error as callers hold it.
struct tw_error {
  tilewright::c::Failure failure;
};

namespace tilewright::c {
namespace {

std::atomic<pid_t> openedBy{0};

constexpr const char *kOutOfMemory = "not enough memory on the host";

/// Stands for all errors for which there was no memory: nobody frees it.
tw_error &outOfMemory() {
  static tw_error *const only = new (std::nothrow) tw_error{{TW_ERROR_OUT_OF_MEMORY, 0, {}}};
  return *only;
}
/// It is made when the library is loaded, while there is memory.
[[maybe_unused]] const tw_error &kMade = outOfMemory();

/// The number in "… failed with CUDA error 700, …", as `cuda::Driver::error` writes it; 0 without one.
int driverNumberIn(const std::string &message) {
  static const std::string before = "failed with CUDA error ";
  const std::size_t at = message.find(before);
  return at == std::string::npos ? 0 : std::atoi(message.c_str() + at + before.size());
}

bool beginsWith(const std::string &text, const std::string &part) {
  return text.compare(0, part.size(), part) == 0;
}

tw_code codeOfDriver(int number) {
  switch (number) {
  case 2: // CUDA_ERROR_OUT_OF_MEMORY
    return TW_ERROR_OUT_OF_MEMORY;
  case 34:  // CUDA_ERROR_STUB_LIBRARY
  case 46:  // CUDA_ERROR_DEVICE_UNAVAILABLE
  case 100: // CUDA_ERROR_NO_DEVICE
  case 101: // CUDA_ERROR_INVALID_DEVICE
  case 802: // CUDA_ERROR_SYSTEM_NOT_READY
  case 803: // CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
  case 804: // CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE
    return TW_ERROR_UNSUPPORTED_DEVICE;
  default:
    return TW_ERROR_DEVICE_FAULT;
  }
}

tw_code codeOfMachine(const std::string &message) {
  if (beginsWith(message, "not enough memory")) return TW_ERROR_OUT_OF_MEMORY;
  if (message.find("kernel '") != std::string::npos)
    return TW_ERROR_DEVICE_FAULT; // its code cannot be loaded
  return TW_ERROR_INPUT_OUTPUT;
}

} // namespace

Failure failureOf(const Status &status) {
  Failure failure;
  failure.message = status.message();
  failure.driverNumber = driverNumberIn(failure.message);
  switch (status.kind()) {
  case StatusKind::ok:
    return {};
  case StatusKind::user:
    failure.code = failure.driverNumber ? codeOfDriver(failure.driverNumber) : TW_ERROR_USER;
    return failure;
  case StatusKind::runtime:
    failure.code = failure.driverNumber ? codeOfDriver(failure.driverNumber) : codeOfMachine(failure.message);
    return failure;
  case StatusKind::compile:
  case StatusKind::internal:
    break;
  }
  failure.code = TW_ERROR_INTERNAL;
  return failure;
}

bool isForkedCopy() {
  const pid_t process = openedBy.load(std::memory_order_relaxed);
  return process != 0 && process != getpid();
}

void rememberProcess() {
  pid_t none = 0;
  openedBy.compare_exchange_strong(none, getpid());
}

tw_code report(const Failure &failure, tw_error **error) noexcept {
  if (!error) return failure.code;
  try {
    *error = new tw_error{failure};
    return failure.code;
  } catch (...) {
    return reportOutOfMemory(error);
  }
}

tw_code reportOutOfMemory(tw_error **error) noexcept {
  if (error) *error = &outOfMemory();
  return TW_ERROR_OUT_OF_MEMORY;
}

tw_code reportForked(tw_error **error) {
  return report(
      {TW_ERROR_USER, 0,
       "a process that was forked after its parent opened a runtime cannot use this library: start it with "
       "exec, or fork before the first tw_runtime_open"},
      error);
}

} // namespace tilewright::c

using namespace tilewright::c;

tw_code tw_error_code(const tw_error *error) { return error ? error->failure.code : TW_OK; }

const char *tw_error_message(const tw_error *error) {
  if (!error) return "";
  return error == &outOfMemory() ? kOutOfMemory : error->failure.message.c_str();
}

int tw_error_driver_number(const tw_error *error) { return error ? error->failure.driverNumber : 0; }

void tw_error_free(tw_error *error) {
  if (error != &outOfMemory()) delete error;
}
