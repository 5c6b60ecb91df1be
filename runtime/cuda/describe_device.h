#pragma once

#include <optional>
#include <string>

#include "compiler/target.h"
#include "runtime/cuda/driver.h"
#include "runtime/device.h"

namespace tilewright::cuda {

/// What is asked for a device's power limit in watts, by its PCI address.
using PowerLimitReader = std::optional<int> (*)(const std::string &pciAddress);

/// What code is generated for on a GPU of this compute capability, with a driver of this CUDA version (1000 ·
/// major + 10 · minor): the newest target that both take. `noDevice` when it is older than all of them.
StatusOr<Target> targetFor(int major, int minor, int version);

/// The target of this name, if code for it runs where code for `newest` does: it is that, or an earlier one
/// whose code every later GPU runs. A user error otherwise.
StatusOr<Target> olderTarget(const std::string &name, const Target &newest);

struct DeviceDescription {
  Target target;
  DeviceInfo info;
  std::string arch;               ///< of the machine code it runs: "sm_90"
  int driverVersion = 0;          ///< CUDA's, 1000 · major + 10 · minor
  int index = 0;                  ///< among the devices that CUDA_VISIBLE_DEVICES leaves
  bool reachesHostMemory = false; ///< all of it, mapped or not
};

/// Code is for the target of this name, or where it is empty for the newest that the device takes. A user
/// error when the device cannot run it, or nothing of what this project compiles.
StatusOr<DeviceDescription> describeDevice(const Driver &driver, CUdevice device, PowerLimitReader powerLimit,
                                           const std::string &targetName);

} // namespace tilewright::cuda
