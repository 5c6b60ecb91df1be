#pragma once

#include <string>
#include <vector>

#include "compiler/base/env.h"
#include "compiler/base/status.h"
#include "compiler/dsl/builder.h"
#include "compiler/options.h"
#include "compiler/target.h"
#include "kernels/covered_calls.h"
#include "runtime/device.h"

namespace tilewright {

/// Makes a bundle: compiled kernels in one file, which a library without a compiler can use
/// (runtime/bundles).
class BundleWriter {
public:
  /// For code of this target, on devices like `device`: see `exportDevice`.
  BundleWriter(Target target, DeviceInfo device) : target_(std::move(target)), device_(std::move(device)) {}

  /// A kernel of one's own, which `tw_kernel_find` finds by its name and specialisation.
  void add(Kernel kernel, const CompileOptions &options = {});
  /// All kernels that some calls of the losses need. A user error says for which number of rows they are
  /// refused.
  Status add(const CoveredCalls &calls);

  int64_t kernels() const { return static_cast<int64_t>(kernels_.size()); }

  /// Compiles all of them side by side and replaces the file, whose bytes it returns. PTX becomes a cubin
  /// where NVIDIA's `ptxas` is in one of its `toolFolders`; else the driver assembles it when the kernel is
  /// first loaded.
  StatusOr<int64_t> write(const std::string &path, const Environment &environment) const;

private:
  const Target target_;
  const DeviceInfo device_;
  KernelSet kernels_;
  std::vector<std::string> covers_;
};

/// What calls are planned for that are exported for a target: this machine's processor; of GPUs an H200 for
/// sm_90 and sm_90a, an A100 for others, unless a GPU's own description is at hand.
DeviceInfo exportDevice(const Target &target);

} // namespace tilewright
