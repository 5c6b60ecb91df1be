#include <cerrno>
#include <cstdint>

#include <sys/random.h>

/// LLVM's archives call arc4random, which glibc has from 2.36 on; nothing else in the library needs more than
/// 2.34. This one takes its place and is hidden, so that the library loads on RHEL 9 and Ubuntu 22.04.
extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() noexcept {
  uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value && errno == EINTR) {
  }
  return value;
}
