#include "runtime/cpu/resident_memory.h"

#include <fstream>
#include <string>

namespace tilewright {
namespace {

/// A line of /proc/self/status: "NAME:   1234 kB".
int64_t statusBytes(const std::string &name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.rfind(name + ":", 0) == 0) return std::stoll(line.substr(name.size() + 1)) * 1024;
  return 0;
}

} // namespace

int64_t residentBytes() { return statusBytes("VmRSS"); }

int64_t peakResidentBytes() { return statusBytes("VmHWM"); }

void resetPeakResident() { std::ofstream("/proc/self/clear_refs") << "5"; }

} // namespace tilewright
