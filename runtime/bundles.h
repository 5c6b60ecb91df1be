#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/base/status.h"
#include "runtime/device.h"
#include "runtime/disk/bundle_file.h"

namespace tilewright {

/// The kernels of one or several bundle files, which are read when they are opened and never written. Any
/// thread may call it.
class Bundles {
public:
  /// A user error names the file that cannot be read, is damaged, fits another library or other devices than
  /// `device` and the files before it, or that is none.
  static StatusOr<std::unique_ptr<const Bundles>> open(const std::vector<std::string> &paths,
                                                       const Device &device);

  /// Null: none of them has such a kernel. Of several that do, the first.
  const Artifact *find(const KernelKey &key) const;
  /// The keys of all kernels of a name.
  std::vector<KernelKey> named(const std::string &name) const;

  /// The device that all of them were exported for. Calls are planned for it, so that they ask for the
  /// kernels that are there.
  const DeviceInfo &device() const { return device_; }

  /// The error of a kernel that none of them has: its key, and what they cover.
  Status missing(const KernelKey &key) const;

private:
  Bundles() = default;
  Status add(const std::string &path, const Device &device);

  struct Kernel {
    KernelKey key;
    Artifact artifact;
  };
  std::map<std::string, Kernel> kernels_; ///< by KernelKey::str
  DeviceInfo device_;
  std::vector<std::string> paths_;
  std::string covers_; ///< a line for each file
};

} // namespace tilewright
