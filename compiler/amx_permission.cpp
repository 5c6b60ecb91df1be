#include "compiler/amx_permission.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cstdint>

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tilewright {

#if defined(__x86_64__) && defined(__linux__)
namespace {

/// CPUID's bit AMX-TILE, and the tile registers' two bits of XCR0: the system saves them between threads.
bool hasTiles() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kUsesXsave = 1u << 27, kHasTiles = 1u << 24, kSavesTiles = 0x60000;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & kUsesXsave)) return false;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(edx & kHasTiles)) return false;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kSavesTiles) == kSavesTiles;
}

AmxPermission askOnce() {
  if (!hasTiles()) return AmxPermission::absent;
  // The numbers are of the kernel's interface: older headers do not have them.
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted ? AmxPermission::granted : AmxPermission::refused;
}

} // namespace
#else
static AmxPermission askOnce() { return AmxPermission::absent; }
#endif

AmxPermission amxPermission() {
  static const AmxPermission permission = askOnce();
  return permission;
}

} // namespace tilewright
