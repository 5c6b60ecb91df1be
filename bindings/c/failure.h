#pragma once

#include <new>
#include <stdexcept>
#include <string>

#include "bindings/c/tilewright.h"
#include "compiler/base/status.h"

namespace tilewright::c {

/// As C programs know it.
tw_code codeOf(const Status &status);

/// Whether this process was forked from one that had opened a runtime: locks may be held that nobody will
/// release.
bool isForkedCopy();
/// The first runtime of this process is about to be opened.
void rememberProcess();

/// Sets *error, where there is one, and returns the code of a Status that is not ok. Without memory for it, a
/// constant says so.
tw_code report(const Status &status, tw_error **error) noexcept;
tw_code reportOutOfMemory(tw_error **error) noexcept;
tw_code reportForked(tw_error **error);

/// Calls `function`, which returns a Status, and reports it. Nothing thrown goes on from here.
template <typename Function> tw_code guarded(tw_error **error, const Function &function) noexcept {
  try {
    if (error) *error = nullptr;
    if (isForkedCopy()) return reportForked(error);
    const Status status = function();
    return status.ok() ? TW_OK : report(status, error);
  } catch (const std::bad_alloc &) {
    return reportOutOfMemory(error);
  } catch (const std::exception &thrown) {
    try {
      return report(internalError(thrown.what()), error);
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
