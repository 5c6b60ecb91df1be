#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilewright {

/// Bytes of the last caches of these processors, each cache once; 0 where the system does not say. Several
/// processors may share one. The C library's figure is of a whole socket, of which a virtual machine, or a
/// process that is bound to some processors, has a part.
int64_t lastCacheBytes(const std::vector<int> &processors,
                       const std::string &folder = "/sys/devices/system/cpu");

/// The numbers of those that this process may run on: its affinity mask, not the machine's total.
std::vector<int> allowedProcessors();

} // namespace tilewright
