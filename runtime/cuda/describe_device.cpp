#include "runtime/cuda/describe_device.h"

#include <algorithm>

#include "compiler/base/hash.h"

namespace tilewright::cuda {
namespace {

struct Properties {
  std::string name, pciAddress;
  std::size_t memoryBytes = 0;
  int version = 0; ///< CUDA's, 1000 · major + 10 · minor
  int major = 0, minor = 0, multiprocessors = 0, kilohertz = 0, memoryKilohertz = 0, sharedBytes = 0;
  int cacheBytes = 0;
  int memoryPools = 0, pageableMemory = 0;
};

StatusOr<Properties> read(const Driver &driver, CUdevice device) {
  Properties found;
  for (auto [value, attribute] :
       {std::pair{&found.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
        std::pair{&found.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
        std::pair{&found.multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
        std::pair{&found.kilohertz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
        std::pair{&found.memoryKilohertz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE},
        std::pair{&found.sharedBytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
        std::pair{&found.cacheBytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
        std::pair{&found.memoryPools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
        std::pair{&found.pageableMemory, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS}})
    TW_RETURN_IF_ERROR(TW_CUDA(driver, cuDeviceGetAttribute, value, attribute, device));
  char text[256] = "";
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuDeviceGetName, text, sizeof text, device));
  found.name = text;
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuDeviceGetPCIBusId, text, sizeof text, device));
  found.pciAddress = text;
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuDeviceTotalMem, &found.memoryBytes, device));
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuDriverGetVersion, &found.version));
  return found;
}

std::string cudaVersion(int version) {
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string nameOf(const Properties &found, std::optional<int> watts) {
  std::string name = found.name + ", " + std::to_string(found.multiprocessors) + " multiprocessors, " +
                     std::to_string(found.kilohertz / 1000) + " MHz";
  if (watts) name += ", " + std::to_string(*watts) + " W";
  return name + ", " + cudaVersion(found.version);
}

/// Memory in GiB: boards of one model differ by what their firmware keeps for itself.
std::string fingerprintOf(const Properties &found, const Target &target, std::optional<int> watts) {
  return sha256(
      joinFields({target.str(), found.name, std::to_string(found.major), std::to_string(found.minor),
                  std::to_string(found.multiprocessors), std::to_string(found.memoryBytes >> 30),
                  std::to_string(found.kilohertz), std::to_string(found.memoryKilohertz),
                  std::to_string(watts.value_or(0)), std::to_string(found.version)}));
}

} // namespace

StatusOr<Target> targetFor(int major, int minor, int version) {
  if (major < 8)
    return noDeviceError("expected an NVIDIA GPU of compute capability 8.0 or later, found " +
                         std::to_string(major) + "." + std::to_string(minor) + "; use the device cpu");
  // Hopper's PTX is of a version that drivers take since CUDA 12.1.
  if (major == 9 && minor == 0 && version >= 12010) return Target{TargetKind::nvptx, "sm_90a", ""};
  if (major >= 9) return Target{TargetKind::nvptx, version >= 12010 ? "sm_90" : "sm_80", ""};
  // They differ in how much shared memory a program can have.
  const char *eights[] = {"sm_80", "sm_80", "sm_80", "sm_80", "sm_80",
                          "sm_80", "sm_86", "sm_87", "sm_87", "sm_89"};
  return Target{TargetKind::nvptx, eights[std::clamp(minor, 0, 9)], ""};
}

StatusOr<Target> olderTarget(const std::string &name, const Target &newest) {
  TW_ASSIGN_OR_RETURN(Target target, parseTarget(name));
  if (target.str() == newest.str()) return target;
  const bool isForMany = target.arch.back() != 'a'; // sm_90a's code is for nothing else
  if (target.kind == TargetKind::nvptx && isForMany && target.capability() <= newest.capability())
    return target;
  return userError("expected a target whose code this GPU runs, " + newest.arch +
                   " or an earlier one, found '" + name + "'");
}

StatusOr<DeviceDescription> describeDevice(const Driver &driver, CUdevice device, PowerLimitReader powerLimit,
                                           const std::string &targetName) {
  TW_ASSIGN_OR_RETURN(const Properties found, read(driver, device));
  TW_ASSIGN_OR_RETURN(Target target, targetFor(found.major, found.minor, found.version));
  if (!targetName.empty()) {
    TW_ASSIGN_OR_RETURN(target, olderTarget(targetName, target));
  }
  if (!found.memoryPools)
    return noDeviceError("'" + found.name +
                         "': expected memory pools, found none, as under some virtual machine "
                         "managers; use another device");
  const std::optional<int> watts = powerLimit(found.pciAddress);
  DeviceInfo info;
  info.name = nameOf(found, watts) + (targetName.empty() ? "" : ", code for " + target.arch);
  info.fingerprint = fingerprintOf(found, target, watts);
  info.memoryBytes = static_cast<int64_t>(found.memoryBytes);
  info.units = found.multiprocessors;
  info.sharedBytes = std::min<int64_t>(found.sharedBytes, target.sharedLimit());
  info.cacheBytes = found.cacheBytes;
  info.warpgroups = target.arch == "sm_90a";
  // A driver's assembler writes code for one architecture, and each driver's writes its own.
  const std::string arch = "sm_" + std::to_string(found.major) + std::to_string(found.minor);
  info.assembler = cudaVersion(found.version) + " for " + arch;
  DeviceDescription description;
  description.target = std::move(target);
  description.info = std::move(info);
  description.arch = arch;
  description.driverVersion = found.version;
  description.reachesHostMemory = found.pageableMemory != 0;
  return description;
}

} // namespace tilewright::cuda
