#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "bindings/c/tilewright.h"
#include "compiler/base/status.h"

namespace tilewright::c {

/// What a caller of the C functions is told.
struct Failure {
  tw_code code = TW_OK;
  int driverNumber = 0;
  std::string message;
};

/// What a Status says, and for those of the machine which part of it failed. Their messages tell: the
/// driver's number is in them, and the lack of memory begins them.
Failure failureOf(const Status &status);

/// Whether this process was forked from one that had opened a runtime: locks may be held that nobody will
/// release.
bool isForkedCopy();
/// The first runtime of this process is about to be opened.
void rememberProcess();

/// Sets *error, where there is one, and returns the failure's code. Without memory for it, a constant says
/// so.
tw_code report(const Failure &failure, tw_error **error) noexcept;
tw_code reportOutOfMemory(tw_error **error) noexcept;
tw_code reportForked(tw_error **error);

/// Calls `function`, which returns a Status or a Failure, and reports it. Nothing thrown goes on from here.
template <typename Function> tw_code guarded(tw_error **error, const Function &function) noexcept {
  try {
    if (error) *error = nullptr;
    if (isForkedCopy()) return reportForked(error);
    const auto result = function();
    if constexpr (std::is_same_v<decltype(function()), Failure>)
      return result.code == TW_OK ? TW_OK : report(result, error);
    else
      return result.ok() ? TW_OK : report(failureOf(result), error);
  } catch (const std::bad_alloc &) {
    return reportOutOfMemory(error);
  } catch (const std::exception &thrown) {
    try {
      return report({TW_ERROR_INTERNAL, 0, thrown.what()}, error);
    } catch (...) {
      return reportOutOfMemory(error);
    }
  } catch (...) {
    return reportOutOfMemory(error);
  }
}

inline Status expected(const char *what) {
  return userError(std::string(what) + ": expected one, found NULL");
}

/// A structure of the caller's, which begins with its size; or its beginning, as an earlier header had it.
template <typename T>
Status checkStruct(const T *given, const char *name, std::size_t earlierBytes = sizeof(T)) {
  if (!given) return expected(name);
  if (given->struct_bytes == sizeof(T) || given->struct_bytes == earlierBytes) return {};
  return userError(std::string(name) + ": expected struct_bytes " + std::to_string(sizeof(T)) + ", found " +
                   std::to_string(given->struct_bytes) +
                   "; set it to sizeof, and compile with the header of this library's version");
}

/// Frees an object, but not in a forked copy of a process, where that might wait for ever.
template <typename T> void release(T *object) noexcept {
  if (!isForkedCopy()) delete object;
}

} // namespace tilewright::c
