#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "compiler/base/status.h"

namespace tilewright {

/// An open file or folder; closed with its owner.
class FileDescriptor {
public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor &operator=(FileDescriptor &&other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

private:
  int fd_ = -1;
};

/// "WHAT: the system's words for errno", a runtime error.
Status systemError(const std::string &what);

/// Makes `path` (0700, missing parents too) if need be and opens it. A user error when it is no folder, or
/// when someone else owns it or may write it.
StatusOr<FileDescriptor> openPrivateFolder(const std::string &path);

/// The same inside an open folder, never through a symbolic link.
StatusOr<FileDescriptor> openPrivateFolderAt(int folder, const std::string &name);

/// A user error when someone else owns an open file or folder or may write it; `name` is for the message.
Status checkPrivate(int fd, const std::string &name);

/// All of a plain file. An error when it is anything else or longer than `limit` bytes.
StatusOr<std::string> readFile(const std::string &path, std::size_t limit);

/// The same inside an open folder, never through a symbolic link, and only if it passes `checkPrivate`.
StatusOr<std::string> readPrivateFileAt(int folder, const std::string &name, std::size_t limit);

/// Makes a file (0600) that must not exist, and returns when its bytes are on the disk. `folder` may be
/// AT_FDCWD.
Status writeNewFileAt(int folder, const std::string &name, const std::string &bytes);

/// Returns when what was written to an open file or folder is on the disk, where its file system can tell.
Status syncToDisk(int fd);

/// Removes a file, or a folder with all that is in it. What does not exist is removed already.
Status removeAt(int folder, const std::string &name);

/// Whether `name` in an open folder is still the open file or folder `fd`, not removed or replaced.
bool isStillThere(int folder, const std::string &name, int fd);

/// Names in an open folder, sorted, without "." and "..".
StatusOr<std::vector<std::string>> namesIn(int folder);

/// 16 hex digits that no other process has.
std::string randomName();

} // namespace tilewright
