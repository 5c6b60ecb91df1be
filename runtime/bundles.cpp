#include "runtime/bundles.h"

#include <algorithm>
#include <tuple>

#include "compiler/base/printable.h"
#include "runtime/disk/files.h"
#include "runtime/host_sources.h"

namespace tilewright {
namespace {

constexpr std::size_t kMostBytes = std::size_t(1) << 32;

/// What planning depends on.
auto plannedFor(const DeviceInfo &device) {
  return std::tuple(device.memoryBytes, device.units, device.sharedBytes, device.cacheBytes,
                    device.warpgroups);
}

/// Code for a processor runs where all of its features are, code for a GPU on its target.
Status checkTarget(const std::string &exported, const Target &target) {
  const bool isOfCpu = exported.rfind("cpu ", 0) == 0;
  if (isOfCpu != (target.kind == TargetKind::cpu))
    return userError("it is for a " + std::string(isOfCpu ? "CPU" : "GPU") + ", the runtime is not");
  if (!isOfCpu)
    return exported == target.str()
               ? Status()
               : userError("it is for the target '" + exported + "', found '" + target.str() +
                           "'; open the runtime for that target, or export for this one");
  const std::size_t features = exported.find(' ', 4);
  const std::string lacking =
      features == std::string::npos ? "" : missingFeatures(exported.substr(features + 1), target.features);
  return lacking.empty() ? Status()
                         : userError("it is for a processor with " + lacking + ", which this one lacks");
}

} // namespace

Status Bundles::add(const std::string &path, const Device &device) {
  TW_ASSIGN_OR_RETURN(const std::string file, readFile(path, kMostBytes));
  TW_ASSIGN_OR_RETURN(BundleContents contents, decodeBundle(file));
  if (contents.sources != hostSources())
    return userError("it was exported by a library of other sources (" + printable(contents.sources) +
                     ", this one is " + hostSources() + "); export it again");
  TW_RETURN_IF_ERROR(checkTarget(contents.target, device.target()));
  if (!paths_.empty() && plannedFor(contents.device) != plannedFor(device_))
    return userError("it was exported for another device ('" + printable(contents.device.name) + "') than " +
                     paths_[0] + " ('" + printable(device_.name) + "')");
  device_ = contents.device;
  paths_.push_back(path);
  covers_ += (covers_.empty() ? "" : "; ") + path + " covers ";
  for (std::size_t i = 0; i < contents.covers.size(); ++i)
    covers_ += (i ? ", " : "") + printable(contents.covers[i]);
  for (BundledKernel &kernel : contents.kernels)
    kernels_.emplace(kernel.key.str(), Kernel{kernel.key, std::move(kernel.artifact)});
  return {};
}

StatusOr<std::unique_ptr<const Bundles>> Bundles::open(const std::vector<std::string> &paths,
                                                       const Device &device) {
  std::unique_ptr<Bundles> bundles(new Bundles());
  for (const std::string &path : paths)
    if (const Status added = bundles->add(path, device); !added.ok()) return added.in("bundle " + path);
  return std::unique_ptr<const Bundles>(std::move(bundles));
}

const Artifact *Bundles::find(const KernelKey &key) const {
  const auto found = kernels_.find(key.str());
  return found == kernels_.end() ? nullptr : &found->second.artifact;
}

std::vector<KernelKey> Bundles::named(const std::string &name) const {
  std::vector<KernelKey> keys;
  for (const auto &[text, kernel] : kernels_)
    if (kernel.key.name == name) keys.push_back(kernel.key);
  return keys;
}

Status Bundles::missing(const KernelKey &key) const {
  return userError("kernel '" + key.name + "' (specialisation '" + key.specialisation + "', options '" +
                   key.options + "') is in no bundle, and this library cannot compile it: " + covers_);
}

} // namespace tilewright
