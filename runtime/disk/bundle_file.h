#pragma once

#include <string>
#include <vector>

#include "compiler/artifact.h"
#include "compiler/base/status.h"
#include "runtime/device.h"
#include "runtime/kernel_cache.h"

namespace tilewright {

struct BundledKernel {
  KernelKey key;
  Artifact artifact; ///< with its binary; PTX alone where no assembler was at hand
};

/// Compiled kernels for one kind of device, as a file that never changes. No kernel's body enters: a name, a
/// specialisation and options find a kernel, and `sources` says which library gives them the same meaning.
struct BundleContents {
  std::string sources;             ///< `hostSources` of the library that exported it
  std::string target;              ///< Target::str()
  DeviceInfo device;               ///< that calls are planned for, wherever they run
  std::vector<std::string> covers; ///< calls all of whose kernels are here, for people
  std::vector<BundledKernel> kernels;
};

/// A line that names the format, the SHA-256 of all that follows, the length of an index, the index (JSON),
/// and the kernels' code. An error when a text is not UTF-8.
StatusOr<std::string> encodeBundle(const BundleContents &contents);

/// A user error says what is wrong with the file: no byte of it may have changed.
StatusOr<BundleContents> decodeBundle(const std::string &file);

} // namespace tilewright
