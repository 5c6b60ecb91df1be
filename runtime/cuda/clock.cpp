#include "runtime/cuda/clock.h"

#include <memory>

#include <dlfcn.h>

namespace tilewright::cuda {

constexpr int kMultiprocessorClock = 1; // NVML_CLOCK_SM

ClockReader::SymbolLookup ClockReader::installedLibrary() {
  const std::shared_ptr<void> library(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), [](void *opened) {
    if (opened) dlclose(opened);
  });
  return [library](const char *name) { return library ? dlsym(library.get(), name) : nullptr; };
}

ClockReader::ClockReader(const std::string &pciAddress, SymbolLookup symbol) : symbol_(std::move(symbol)) {
  auto *begin = function<int()>("nvmlInit_v2");
  auto *end = function<int()>("nvmlShutdown");
  auto *byAddress = function<int(const char *, Gpu *)>("nvmlDeviceGetHandleByPciBusId_v2");
  clockOf_ = function<int(Gpu, int, unsigned *)>("nvmlDeviceGetClockInfo");
  if (!begin || !end || !byAddress || !clockOf_ || begin() != 0) return;
  end_ = end;
  if (byAddress(pciAddress.c_str(), &gpu_) != 0) gpu_ = nullptr;
}

ClockReader::~ClockReader() {
  if (end_) end_();
}

std::optional<unsigned> ClockReader::megahertz() const {
  unsigned found = 0;
  if (!gpu_ || clockOf_(gpu_, kMultiprocessorClock, &found) != 0) return std::nullopt;
  return found;
}

} // namespace tilewright::cuda
