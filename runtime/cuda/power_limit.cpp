#include "runtime/cuda/power_limit.h"

#include <memory>

#include <dlfcn.h>

namespace tilewright::cuda {
namespace {

using Device = struct nvmlDevice_st *;

template <typename Signature> Signature *function(const SymbolLookup &symbol, const char *name) {
  return reinterpret_cast<Signature *>(symbol(name));
}

std::optional<int> ask(const SymbolLookup &symbol, const std::string &pciAddress) {
  auto *byAddress = function<int(const char *, Device *)>(symbol, "nvmlDeviceGetHandleByPciBusId_v2");
  auto *limitOf = function<int(Device, unsigned *)>(symbol, "nvmlDeviceGetPowerManagementDefaultLimit");
  Device device = nullptr;
  unsigned milliwatts = 0;
  if (!byAddress || !limitOf || byAddress(pciAddress.c_str(), &device) != 0 ||
      limitOf(device, &milliwatts) != 0)
    return std::nullopt;
  return static_cast<int>((milliwatts + 500) / 1000);
}

} // namespace

std::optional<int> powerLimitWatts(const std::string &pciAddress, const SymbolLookup &symbol) {
  auto *begin = function<int()>(symbol, "nvmlInit_v2");
  auto *end = function<int()>(symbol, "nvmlShutdown");
  if (!begin || !end || begin() != 0) return std::nullopt;
  std::optional<int> watts = ask(symbol, pciAddress);
  end();
  return watts;
}

std::optional<int> powerLimitWatts(const std::string &pciAddress) {
  std::unique_ptr<void, int (*)(void *)> library(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), dlclose);
  if (!library) return std::nullopt;
  return powerLimitWatts(pciAddress, [&](const char *name) { return dlsym(library.get(), name); });
}

} // namespace tilewright::cuda
