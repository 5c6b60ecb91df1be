#include "runtime/disk/files.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tilewright {
namespace {

/// Beyond the process's file size limit, write() raises SIGXFSZ, which ends the process; a cache must see
/// EFBIG instead.
class NoFileSizeSignal {
public:
  NoFileSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~NoFileSizeSignal() {
    const int saved = errno;
    const timespec now{0, 0};
    if (!sigismember(&before_, SIGXFSZ)) sigtimedwait(&signal_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = saved;
  }

private:
  sigset_t signal_, before_;
};

Status writeAll(int fd, const std::string &bytes) {
  NoFileSizeSignal guard;
  for (std::size_t done = 0; done < bytes.size();) {
    ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno != EINTR) return systemError("write");
    if (n > 0) done += n;
  }
  return {};
}

StatusOr<std::string> readAll(int fd, std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t done = 0; done < bytes;) {
    ssize_t n = ::read(fd, text.data() + done, bytes - done);
    if (n == 0) return runtimeError("it became shorter while it was read");
    if (n < 0 && errno != EINTR) return systemError("read");
    if (n > 0) done += n;
  }
  return text;
}

Status makeFolders(const std::string &path) {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    if (::mkdir(path.substr(0, end).c_str(), 0700) != 0 && errno != EEXIST)
      return systemError("cannot make folder " + path.substr(0, end));
  }
  return {};
}

StatusOr<std::string> readPlainFile(int fd, const std::string &name, std::size_t limit) {
  struct stat info;
  if (fstat(fd, &info) != 0) return systemError(name);
  if (!S_ISREG(info.st_mode)) return userError(name + " is not a plain file");
  if (static_cast<std::size_t>(info.st_size) > limit)
    return userError(name + " has " + std::to_string(info.st_size) + " bytes, more than " +
                     std::to_string(limit));
  return readAll(fd, info.st_size);
}

StatusOr<FileDescriptor> openCheckedFolder(int at, const std::string &name, int extraFlags) {
  FileDescriptor fd(openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | extraFlags));
  if (!fd.valid()) return systemError("cannot open folder " + name);
  TW_RETURN_IF_ERROR(checkPrivate(fd.get(), name));
  return fd;
}

} // namespace

FileDescriptor::~FileDescriptor() {
  if (valid()) ::close(fd_);
}

Status systemError(const std::string &what) {
  const std::string message = what + ": " + std::strerror(errno);
  return errno == ENOMEM ? memoryError(message) : runtimeError(message);
}

StatusOr<FileDescriptor> openPrivateFolder(const std::string &path) {
  TW_RETURN_IF_ERROR(makeFolders(path));
  return openCheckedFolder(AT_FDCWD, path, 0);
}

StatusOr<FileDescriptor> openPrivateFolderAt(int folder, const std::string &name) {
  if (mkdirat(folder, name.c_str(), 0700) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
    return systemError("cannot make folder " + name);
  return openCheckedFolder(folder, name, O_NOFOLLOW);
}

Status checkPrivate(int fd, const std::string &name) {
  struct stat info;
  if (fstat(fd, &info) != 0) return systemError("cannot inspect " + name);
  if (info.st_uid != geteuid())
    return userError(name + " belongs to user " + std::to_string(info.st_uid) + ", not to this user (" +
                     std::to_string(geteuid()) + ")");
  if (info.st_mode & 022) return userError("others may write " + name + "; chmod go-w would make it usable");
  return {};
}

StatusOr<std::string> readFile(const std::string &path, std::size_t limit) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return userError("cannot open " + path + ": " + std::strerror(errno));
  return readPlainFile(fd.get(), path, limit);
}

StatusOr<std::string> readPrivateFileAt(int folder, const std::string &name, std::size_t limit) {
  // O_NONBLOCK: opening a named pipe must not wait for its writer.
  FileDescriptor fd(openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return systemError(name);
  TW_RETURN_IF_ERROR(checkPrivate(fd.get(), name));
  return readPlainFile(fd.get(), name, limit);
}

Status writeNewFileAt(int folder, const std::string &name, const std::string &bytes) {
  FileDescriptor fd(openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return systemError("cannot make file " + name);
  TW_RETURN_IF_ERROR(writeAll(fd.get(), bytes));
  return syncToDisk(fd.get());
}

Status syncToDisk(int fd) {
  // Some network and FUSE file systems cannot sync a folder.
  if (fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP) return {};
  return systemError("fsync");
}

Status removeAt(int folder, const std::string &name) {
  if (unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR && errno != EPERM) return systemError("cannot remove " + name);
  FileDescriptor fd(openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return systemError("cannot open folder " + name);
  TW_ASSIGN_OR_RETURN(std::vector<std::string> names, namesIn(fd.get()));
  for (const std::string &child : names)
    TW_RETURN_IF_ERROR(removeAt(fd.get(), child));
  if (unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
  return systemError("cannot remove folder " + name);
}

bool isStillThere(int folder, const std::string &name, int fd) {
  struct stat open, named;
  return fstat(fd, &open) == 0 && fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

StatusOr<std::vector<std::string>> namesIn(int folder) {
  // A second open: a directory stream takes its descriptor's position, and closes it.
  int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *stream = fd < 0 ? nullptr : fdopendir(fd);
  if (!stream) {
    Status status = systemError("cannot list a folder");
    if (fd >= 0) ::close(fd);
    return status;
  }
  std::vector<std::string> names;
  while (const dirent *item = readdir(stream))
    if (std::strcmp(item->d_name, ".") != 0 && std::strcmp(item->d_name, "..") != 0)
      names.push_back(item->d_name);
  closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

std::string randomName() {
  unsigned long long bits = 0;
  if (getrandom(&bits, sizeof bits, 0) != sizeof bits)
    bits = static_cast<unsigned long long>(getpid()) << 32 ^ static_cast<unsigned long long>(std::clock());
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", bits);
  return text;
}

} // namespace tilewright
