#include "runtime/cuda/power_limit.h"

#include <memory>

#include <dlfcn.h>

namespace tilewright::cuda {
namespace {

using Device = struct nvmlDevice_st *;

template <typename Signature> Signature *symbol(void *library, const char *name) {
  return reinterpret_cast<Signature *>(dlsym(library, name));
}

std::optional<int> ask(void *library, const std::string &pciAddress) {
  auto *byAddress = symbol<int(const char *, Device *)>(library, "nvmlDeviceGetHandleByPciBusId_v2");
  auto *limitOf = symbol<int(Device, unsigned *)>(library, "nvmlDeviceGetEnforcedPowerLimit");
  Device device = nullptr;
  unsigned milliwatts = 0;
  if (!byAddress || !limitOf || byAddress(pciAddress.c_str(), &device) != 0 ||
      limitOf(device, &milliwatts) != 0)
    return std::nullopt;
  return static_cast<int>((milliwatts + 500) / 1000);
}

} // namespace

std::optional<int> powerLimitWatts(const std::string &pciAddress) {
  std::unique_ptr<void, int (*)(void *)> library(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), dlclose);
  if (!library) return std::nullopt;
  auto *begin = symbol<int()>(library.get(), "nvmlInit_v2");
  auto *end = symbol<int()>(library.get(), "nvmlShutdown");
  if (!begin || !end || begin() != 0) return std::nullopt;
  std::optional<int> watts = ask(library.get(), pciAddress);
  end();
  return watts;
}

} // namespace tilewright::cuda
