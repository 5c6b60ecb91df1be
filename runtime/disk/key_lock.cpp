#include "runtime/disk/key_lock.h"

#include <algorithm>
#include <cerrno>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace tilewright {

using std::chrono::milliseconds;

namespace {

/// Locks on removed files in a row after which it is not other processes that remove them: some layered file
/// systems tell an open file another inode number than its name.
constexpr int kMaxRemoved = 8;

} // namespace

StatusOr<std::optional<KeyLock>> KeyLock::acquire(int folder, const std::string &name, milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int removed = 0;
  for (milliseconds pause(1);; pause = std::min(2 * pause, milliseconds(16))) {
    FileDescriptor file(
        openat(folder, name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (!file.valid()) return systemError("cannot open lock file " + name);
    if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      // The last holder removes its file; a lock on a removed file excludes nobody.
      if (isStillThere(folder, name, file.get()))
        return std::optional<KeyLock>(KeyLock(folder, name, std::move(file)));
      if (++removed == kMaxRemoved) return runtimeError("lock files do not keep their inode numbers here");
    } else {
      if (errno != EWOULDBLOCK && errno != EINTR) return systemError("cannot lock " + name);
      removed = 0;
    }
    if (std::chrono::steady_clock::now() >= deadline) return std::optional<KeyLock>();
    // Polling, because flock has no time limit and an alarm signal is the application's.
    std::this_thread::sleep_for(pause);
  }
}

KeyLock::~KeyLock() {
  if (file_.valid()) unlinkat(folder_, name_.c_str(), 0);
}

} // namespace tilewright
