#include "bindings/c/failure.h"

#include <atomic>
#include <cstdlib>

#include <unistd.h>

/// An error as callers hold it.
struct tw_error {
  tilewright::Status status;
};

namespace tilewright::c {
namespace {

std::atomic<pid_t> openedBy{0};

constexpr const char *kOutOfMemory = "not enough memory on the host";

/// Stands for all errors for which there was no memory: nobody frees it.
tw_error &outOfMemory() {
  static tw_error *const only = new (std::nothrow) tw_error{memoryError({})};
  return *only;
}
/// It is made when the library is loaded, while there is memory.
[[maybe_unused]] const tw_error &kMade = outOfMemory();

} // namespace

tw_code codeOf(const Status &status) {
  switch (status.kind()) {
  case StatusKind::ok:
    return TW_OK;
  case StatusKind::user:
    return TW_ERROR_USER;
  case StatusKind::memory:
    return TW_ERROR_OUT_OF_MEMORY;
  case StatusKind::noDevice:
    return TW_ERROR_UNSUPPORTED_DEVICE;
  case StatusKind::device:
    return TW_ERROR_DEVICE_FAULT;
  case StatusKind::runtime:
    return TW_ERROR_INPUT_OUTPUT;
  case StatusKind::compile:
  case StatusKind::internal:
    break;
  }
  return TW_ERROR_INTERNAL;
}

bool isForkedCopy() {
  const pid_t process = openedBy.load(std::memory_order_relaxed);
  return process != 0 && process != getpid();
}

void rememberProcess() {
  pid_t none = 0;
  openedBy.compare_exchange_strong(none, getpid());
}

tw_code report(const Status &status, tw_error **error) noexcept {
  const tw_code code = codeOf(status);
  if (!error) return code;
  try {
    *error = new tw_error{status};
    return code;
  } catch (...) {
    return reportOutOfMemory(error);
  }
}

tw_code reportOutOfMemory(tw_error **error) noexcept {
  if (error) *error = &outOfMemory();
  return TW_ERROR_OUT_OF_MEMORY;
}

tw_code reportForked(tw_error **error) {
  return report(userError("a process that was forked after its parent opened a runtime cannot use this "
                          "library: start it with "
                          "exec, or fork before the first tw_runtime_open"),
                error);
}

} // namespace tilewright::c

using namespace tilewright::c;

tw_code tw_error_code(const tw_error *error) { return error ? codeOf(error->status) : TW_OK; }

const char *tw_error_message(const tw_error *error) {
  if (!error) return "";
  return error == &outOfMemory() ? kOutOfMemory : error->status.message().c_str();
}

int tw_error_driver_number(const tw_error *error) { return error ? error->status.driverNumber() : 0; }

void tw_error_free(tw_error *error) {
  if (error != &outOfMemory()) delete error;
}
