#include "runtime/runtime.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "compiler/base/elapsed.h"
#include "compiler/base/version.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/open_runtime.h"

namespace tilewright {
namespace {

/// The index in "cuda" or "cuda:INDEX".
std::optional<int> cudaIndex(const std::string &name) {
  if (name == "cuda") return 0;
  const std::string digits = name.rfind("cuda:", 0) == 0 ? name.substr(5) : "";
  constexpr std::size_t kMaxDigits = 4;
  if (digits.empty() || digits.size() > kMaxDigits ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::stoi(digits);
}

/// A CPU with code for the named processor, or for itself.
StatusOr<std::unique_ptr<Device>> openCpu(int threads, const std::string &name) {
  if (name.empty() || name == "cpu") return std::unique_ptr<Device>(std::make_unique<CpuDevice>(threads));
  TW_ASSIGN_OR_RETURN(Target target, parseTarget(name));
  if (target.isAarch64())
    return userError("expected a target whose code this processor runs, found '" + name +
                     "'; tilewright emit writes code for it");
  const std::string missing = missingFeatures(target.features, hostTarget().features);
  if (!missing.empty())
    return userError("expected a target whose code this processor runs, found '" + name + "', which has " +
                     missing + " beside what this one has");
  return std::unique_ptr<Device>(std::make_unique<CpuDevice>(threads, std::move(target)));
}

/// The name that was asked for, else the environment's if it is of a device of that kind, else none.
StatusOr<std::string> targetName(const Environment &environment, const std::string &asked, TargetKind kind) {
  if (!asked.empty() || environment.target.empty()) return asked;
  TW_ASSIGN_OR_RETURN(const Target target, parseTarget(environment.target));
  return target.kind == kind ? environment.target : "";
}

StatusOr<std::unique_ptr<Device>> openDeviceIn(const Environment &environment, std::string name,
                                               const std::string &target) {
  setDefaultLogLevel(environment.log);
  if (name.empty()) name = environment.device;
  if (name == "cpu" && namesGpu(target))
    return userError("expected a GPU for code of target '" + target + "', found device 'cpu'; name a device");
  if (name == "cpu") {
    TW_ASSIGN_OR_RETURN(const std::string processor, targetName(environment, target, TargetKind::cpu));
    return openCpu(environment.threads, processor);
  }
  const std::optional<int> index = cudaIndex(name);
  if (!index) return userError("device '" + name + "' is not known; choices: cpu, cuda, cuda:INDEX");
  TW_ASSIGN_OR_RETURN(const std::string arch, targetName(environment, target, TargetKind::nvptx));
  StatusOr<std::unique_ptr<Device>> device = openCudaDevice(*index, arch, environment.toolFolders);
  if (!device.ok()) return device.status().in("device '" + name + "'");
  return device;
}

/// All that an artifact's binary depends on beside the kernel.
std::string targetOf(const Device &device) {
  const std::string &assembler = device.info().assembler;
  return device.target().str() + (assembler.empty() ? "" : ", " + assembler);
}

} // namespace

StatusOr<std::unique_ptr<Device>> openDevice(const std::string &name, const std::string &target) {
  TW_ASSIGN_OR_RETURN(Environment environment, readEnvironment());
  return openDeviceIn(environment, name, target);
}

std::vector<std::string> availableDevices() {
  std::vector<std::string> names = {"cpu"};
  for (int index = 0; index < cudaDeviceCount(); ++index)
    names.push_back("cuda:" + std::to_string(index));
  return names;
}

StatusOr<std::unique_ptr<Runtime>> Runtime::open(const std::string &device, const std::string &target) {
  TW_ASSIGN_OR_RETURN(Environment environment, readEnvironment());
  return openRuntime(std::move(environment), device, target);
}

StatusOr<std::unique_ptr<Runtime>> openRuntime(Environment environment, const std::string &device,
                                               const std::string &target) {
  TW_ASSIGN_OR_RETURN(std::unique_ptr<Device> opened, openDeviceIn(environment, device, target));
  std::unique_ptr<const Bundles> bundles;
  if (!environment.bundles.empty()) {
    TW_ASSIGN_OR_RETURN(bundles, Bundles::open(environment.bundles, *opened));
  }
  return std::make_unique<Runtime>(std::move(opened), std::move(environment), std::move(bundles));
}

Runtime::Runtime(std::unique_ptr<Device> device, Environment environment,
                 std::unique_ptr<const Bundles> bundles)
    : device_(std::move(device)), environment_(std::move(environment)), bundles_(std::move(bundles)) {}

ArtifactCache *Runtime::artifacts() {
  std::call_once(artifactsOpened_, [this] {
    if (environment_.cacheDir.empty()) return logInfo("no cache folder: kernels are not kept on disk");
    StatusOr<std::unique_ptr<ArtifactCache>> opened = ArtifactCache::open(environment_.cacheDir);
    if (opened.ok())
      artifacts_ = *std::move(opened);
    else
      logWarning("kernels are not kept on disk: " + opened.status().message());
  });
  return artifacts_.get();
}

StatusOr<Artifact> Runtime::timedCompile(const KernelSource &source) {
  const auto begin = std::chrono::steady_clock::now();
  StatusOr<Artifact> artifact = source.compile();
  if (artifact.ok())
    if (Status assembled = device_->assemble(*artifact); !assembled.ok()) artifact = assembled;
  const double milliseconds = millisecondsSince(begin);
  if (artifact.ok())
    logInfo("compiled '" + artifact->kernel + "' in " + std::to_string(milliseconds) + " ms");
  std::lock_guard<std::mutex> guard(countersMutex_);
  counters_.compileMilliseconds += milliseconds;
  if (artifact.ok()) ++counters_.compiled;
  return artifact;
}

StatusOr<KernelHandle> Runtime::loadBundled(const Artifact &artifact) {
  // A cubin is for chips of one generation; its PTX runs on later ones, too.
  StatusOr<std::unique_ptr<LoadedKernel>> loaded = device_->load(artifact);
  if (!loaded.ok() && !artifact.assembly.empty()) {
    Artifact assembled = artifact;
    assembled.binary.clear();
    TW_RETURN_IF_ERROR(device_->assemble(assembled));
    loaded = device_->load(assembled);
  }
  if (!loaded.ok()) return loaded.status();
  std::lock_guard<std::mutex> guard(countersMutex_);
  ++counters_.bundleHits;
  return KernelHandle(*std::move(loaded));
}

StatusOr<KernelHandle> Runtime::make(const KernelKey &key, const KernelSource &source) {
  if (bundles_)
    if (const Artifact *artifact = bundles_->find(key)) return loadBundled(*artifact);
  if (!source.compile)
    return bundles_
               ? bundles_->missing(key)
               : userError("kernel '" + key.name +
                           "' cannot be compiled, as this library has no compiler; open a bundle of kernels");
  std::unique_ptr<LoadedKernel> loaded;
  auto compile = [&] { return timedCompile(source); };
  auto load = [&](const Artifact &artifact) -> Status {
    TW_ASSIGN_OR_RETURN(loaded, device_->load(artifact));
    return {};
  };
  // Who asks for dumps wants the compiler to run.
  ArtifactCache *disk = environment_.dump.empty() ? artifacts() : nullptr;
  if (!disk) {
    TW_ASSIGN_OR_RETURN(Artifact artifact, compile());
    TW_RETURN_IF_ERROR(load(artifact));
    return KernelHandle(std::move(loaded));
  }
  const auto begin = std::chrono::steady_clock::now();
  TW_ASSIGN_OR_RETURN(std::string fingerprint, source.fingerprint());
  TW_ASSIGN_OR_RETURN(bool fromDisk, disk->obtain({key, std::move(fingerprint), targetOf(*device_),
                                                   compilerVersion(), environment_.keyLines},
                                                  compile, load));
  if (fromDisk) {
    const double milliseconds = millisecondsSince(begin);
    logInfo("loaded '" + key.name + "' from disk in " + std::to_string(milliseconds) + " ms");
    std::lock_guard<std::mutex> guard(countersMutex_);
    ++counters_.diskHits;
    counters_.diskMilliseconds += milliseconds;
  }
  return KernelHandle(std::move(loaded));
}

StatusOr<KernelHandle> Runtime::kernel(const KernelKey &key, const KernelSource &source) {
  return kernels_.get(key, [&] { return make(key, source); });
}

StatusOr<CallStatus> Runtime::callStatus() {
  std::lock_guard<std::mutex> guard(statusesMutex_);
  // The longest unused come first. However many runs are under way, few are looked at.
  constexpr std::size_t kLookedAt = 8, kAtOnce = 64;
  for (std::size_t i = 0; i < std::min(kLookedAt, statuses_.size()); ++i) {
    nextStatus_ = (nextStatus_ + 1) % statuses_.size();
    const CallStatus &status = statuses_[nextStatus_];
    if (status.isUnused() && status.isDone()) return status;
  }
  TW_ASSIGN_OR_RETURN(const std::vector<CallStatus> more, CallStatus::allocate(*device_, kAtOnce));
  nextStatus_ = statuses_.size();
  statuses_.insert(statuses_.end(), more.begin(), more.end());
  return statuses_[nextStatus_];
}

RuntimeCounters Runtime::counters() const {
  std::lock_guard<std::mutex> guard(countersMutex_);
  RuntimeCounters counters = counters_;
  counters.memoryHits = kernels_.hits();
  return counters;
}

} // namespace tilewright
