#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "compiler/base/status.h"
#include "runtime/disk/files.h"

namespace tilewright {

/// A lock that at most one process (and one thread of it) holds; given back when its holder dies. The lock is
/// a file of the given name, which exists only while it is held or was held by a process that died.
class KeyLock {
public:
  /// Waits until the lock is free, at most `limit`; nullopt when that was not long enough. An error when the
  /// folder cannot hold lock files.
  static StatusOr<std::optional<KeyLock>> acquire(int folder, const std::string &name,
                                                  std::chrono::milliseconds limit);

  KeyLock(KeyLock &&) = default;
  KeyLock &operator=(KeyLock &&) = delete;
  ~KeyLock();

private:
  KeyLock(int folder, std::string name, FileDescriptor file)
      : folder_(folder), name_(std::move(name)), file_(std::move(file)) {}

  int folder_; ///< not owned; outlives the lock
  std::string name_;
  FileDescriptor file_;
};

} // namespace tilewright
