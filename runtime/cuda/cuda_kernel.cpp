#include "runtime/cuda/cuda_kernel.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>

#include "runtime/argument_slots.h"
#include "runtime/cuda/assembler.h"

namespace tilewright::cuda {
namespace {

constexpr int kMaxTensorMaps = kMaxSlots * 8 / sizeof(CUtensorMap);
constexpr int kMaxThreads = 1024;
constexpr int64_t kMaxPrograms[3] = {INT_MAX, 65535, 65535}; ///< along each grid axis, on every GPU

Status kernelError(const Artifact &artifact, const Status &cause) {
  return cause.in("kernel '" + artifact.kernel + "'");
}

Status checkArtifact(const Artifact &artifact) {
  const int slots = slotsOf(artifact) + artifact.ranksClusters;
  for (const TensorMap &map : artifact.tensorMaps)
    TW_RETURN_IF_ERROR(checkTensorMap(artifact, map));
  const std::size_t maps = artifact.tensorMaps.size(), slotsOfMap = sizeof(CUtensorMap) / 8;
  // Maps begin at multiples of half their size.
  const std::size_t used = slots + (maps ? slotsOfMap / 2 - 1 + maps * slotsOfMap : 0);
  if (used > kMaxSlots)
    return kernelError(artifact, compileError("expected at most " + std::to_string(kMaxSlots) +
                                              " 8-byte parameters, found " + std::to_string(used) +
                                              "; use fewer views"));
  if (artifact.clusterCtas < 1)
    return kernelError(artifact, internalError("expected clusters of 1 or more CTAs, found " +
                                               std::to_string(artifact.clusterCtas)));
  if (artifact.threads < 1 || artifact.threads > kMaxThreads || artifact.sharedBytes < 0 ||
      artifact.sharedBytes > INT_MAX)
    return kernelError(artifact, internalError("expected 1 to 1024 threads and 0 or more bytes of shared "
                                               "memory, found " +
                                               std::to_string(artifact.threads) + " and " +
                                               std::to_string(artifact.sharedBytes)));
  return {};
}

/// The driver is told no length, so what is no ELF file for an NVIDIA GPU at all must not reach it.
bool isCubin(const std::string &binary) {
  constexpr std::size_t kHeaderBytes = 64, kMachineAt = 18;
  constexpr unsigned char kMachine[2] = {190, 0}; ///< EM_CUDA
  return binary.size() > kHeaderBytes && std::memcmp(binary.data(), "\177ELF", 4) == 0 &&
         std::memcmp(binary.data() + kMachineAt, kMachine, 2) == 0;
}

/// What the assembler made of a kernel.
struct Resources {
  int maxThreads = 0, staticShared = 0, local = 0, registers = 0;
};

StatusOr<Resources> resourcesOf(const Driver &driver, CUfunction function) {
  Resources found;
  for (auto [value, attribute] : {std::pair{&found.maxThreads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
                                  std::pair{&found.staticShared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES},
                                  std::pair{&found.local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES},
                                  std::pair{&found.registers, CU_FUNC_ATTRIBUTE_NUM_REGS}})
    TW_RETURN_IF_ERROR(TW_CUDA(driver, cuFuncGetAttribute, value, attribute, function));
  return found;
}

/// Whether the device can run it at all, and the one attribute that its launches need.
Status prepare(const Driver &driver, CUfunction function, const Artifact &artifact, int64_t sharedLimit) {
  TW_ASSIGN_OR_RETURN(Resources found, resourcesOf(driver, function));
  if (artifact.threads > found.maxThreads)
    return deviceError("expected at most " + std::to_string(found.maxThreads) + " threads with " +
                       std::to_string(found.registers) + " registers each, found " +
                       std::to_string(artifact.threads) + "; use a smaller tile");
  if (artifact.sharedBytes + found.staticShared > sharedLimit)
    return deviceError(
        "expected at most " + std::to_string(sharedLimit) + " bytes of shared memory on this device, found " +
        std::to_string(artifact.sharedBytes + found.staticShared) + "; use a smaller tile or fewer stages");
  logDebug("kernel '" + artifact.kernel + "': " + std::to_string(found.registers) + " registers, " +
           std::to_string(found.local) + " bytes of local memory a thread, " +
           std::to_string(artifact.sharedBytes + found.staticShared) + " bytes of shared memory");
  if (artifact.sharedBytes == 0) return {};
  return TW_CUDA(driver, cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                 static_cast<int>(artifact.sharedBytes));
}

StatusOr<std::string> binaryOf(const std::shared_ptr<const Context> &context, const Artifact &artifact) {
  if (artifact.binary.empty() && isLoadedAsPtx(artifact)) return artifact.assembly;
  if (artifact.binary.empty()) return assemblePtx(context, artifact.kernel, artifact.assembly);
  if (isCubin(artifact.binary)) return artifact.binary;
  return kernelError(artifact, deviceError("expected its binary to be a cubin, found " +
                                           std::to_string(artifact.binary.size()) +
                                           " bytes of another kind; compile it again"));
}

StatusOr<std::unique_ptr<LoadedKernel>> loadBinary(const std::shared_ptr<const Context> &context,
                                                   const Artifact &artifact, const std::string &binary,
                                                   const DeviceDescription &device, Buffer ranks) {
  const Driver &driver = context->driver();
  CUmodule loaded = nullptr;
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuModuleLoadData, &loaded, binary.data()));
  Module module(context, loaded);
  CUfunction function = nullptr;
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuModuleGetFunction, &function, module.get(), artifact.kernel.c_str()));
  TW_RETURN_IF_ERROR(prepare(driver, function, artifact, device.info.sharedBytes));
  return std::unique_ptr<LoadedKernel>(
      std::make_unique<CudaKernel>(artifact, context, std::move(module), function, device, std::move(ranks)));
}

/// A launch's parameters as the driver wants them: the address of each. Left uninitialised but for what is
/// written: clearing 12 KiB would cost more than the rest.
class Parameters {
public:
  explicit Parameters(ArgumentSlots &slots) : count_(slots.count()) {
    for (int i = 0; i < count_; ++i)
      addresses_[i] = slots.data() + i;
  }
  /// The next tensor map, to be written before the launch.
  CUtensorMap &appendMap() {
    CUtensorMap &map = maps_[mapCount_++];
    addresses_[count_++] = &map;
    return map;
  }
  void **addresses() { return addresses_; }

private:
  int count_ = 0, mapCount_ = 0;
  CUtensorMap maps_[kMaxTensorMaps];
  void *addresses_[kMaxSlots];
};

Status checkGrid(const Artifact &artifact, const Grid &grid) {
  for (int axis = 0; axis < 3; ++axis)
    if (grid[axis] > kMaxPrograms[axis])
      return kernelError(artifact,
                         userError("expected at most " + std::to_string(kMaxPrograms[axis]) +
                                   " programs along grid axis " + std::to_string(axis) +
                                   ", which is what a GPU takes, found " + std::to_string(grid[axis]) +
                                   "; use a larger block, or split the tensor"));
  return {};
}

/// What a launch asks for beside its grid.
class LaunchAttributes {
public:
  LaunchAttributes(const Artifact &artifact, bool startsEarly) {
    const unsigned ctas = artifact.clusterCtas;
    if (ctas > 1) {
      CUlaunchAttribute &cluster = append(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
      cluster.value.clusterDim = {1, ctas, 1};
      if (artifact.persistent) cluster.value.clusterDim = {ctas, 1, 1};
    }
    if (startsEarly)
      append(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
          .value.programmaticStreamSerializationAllowed = 1;
  }
  CUlaunchAttribute *data() { return attributes_; }
  unsigned count() const { return count_; }

private:
  CUlaunchAttribute &append(CUlaunchAttributeID id) {
    CUlaunchAttribute &attribute = attributes_[count_++];
    attribute.id = id;
    return attribute;
  }

  CUlaunchAttribute attributes_[2] = {};
  unsigned count_ = 0;
};

/// CUDA 12.3; drivers before it could not capture such launches in a graph.
constexpr int kFirstToCaptureEarlyStarts = 12030;

std::string describeLaunch(const CUlaunchConfig &config) {
  return std::to_string(config.gridDimX) + "x" + std::to_string(config.gridDimY) + "x" +
         std::to_string(config.gridDimZ) + " programs of " + std::to_string(config.blockDimX) +
         " threads and " + std::to_string(config.sharedMemBytes) + " bytes of shared memory: ";
}

} // namespace

std::array<unsigned, 3> ctasFor(const Artifact &artifact, const Grid &grid, int multiprocessors) {
  if (artifact.persistent) {
    const int64_t cluster = artifact.clusterCtas, besides = (grid[1] + cluster - 1) / cluster;
    const int64_t clusters = std::min<int64_t>(grid[0] * besides * grid[2], multiprocessors / cluster);
    return {static_cast<unsigned>(clusters * cluster), 1, 1};
  }
  return {static_cast<unsigned>(grid[0]), static_cast<unsigned>(grid[1] * artifact.clusterCtas),
          static_cast<unsigned>(grid[2])};
}

StatusOr<std::unique_ptr<LoadedKernel>> CudaKernel::load(const std::shared_ptr<const Context> &context,
                                                         const Artifact &artifact,
                                                         const DeviceDescription &device, Buffer ranks) {
  TW_RETURN_IF_ERROR(checkArtifact(artifact));
  if (!artifact.tensorMaps.empty() && !context->driver().cuTensorMapEncodeTiled)
    return kernelError(artifact,
                       noDeviceError("expected a driver that knows TMA, found an older one; install "
                                     "NVIDIA's driver 530 (CUDA 12.1) or later"));
  TW_ASSIGN_OR_RETURN(const std::string binary, binaryOf(context, artifact));
  CurrentContext current(*context);
  TW_RETURN_IF_ERROR(current.status());
  OutsideCapture outside(context->driver());
  StatusOr<std::unique_ptr<LoadedKernel>> kernel =
      loadBinary(context, artifact, binary, device, std::move(ranks));
  if (!kernel.ok()) return kernelError(artifact, kernel.status());
  return kernel;
}

CudaKernel::CudaKernel(Artifact artifact, std::shared_ptr<const Context> context, Module module,
                       CUfunction function, const DeviceDescription &device, Buffer ranks)
    : LoadedKernel(std::move(artifact)), context_(std::move(context)), module_(std::move(module)),
      function_(function), multiprocessors_(device.info.units),
      startsEarly_(this->artifact().startsEarly && device.driverVersion >= kFirstToCaptureEarlyStarts),
      ranks_(std::move(ranks)) {
  for (const TensorMap &map : this->artifact().tensorMaps)
    tensorMaps_.push_back(std::make_unique<TensorMapCache>(this->artifact(), map));
}

const void *CudaKernel::ranksOf(unsigned clusters) const {
  return ranks_.bytes() == clusters * sizeof(int32_t) ? ranks_.data() : nullptr;
}

bool CudaKernel::startsEarly(ArgumentSpan arguments) const {
  // Of larger matrices a launch is no good part of the call, and CTAs that begin out of their order cost
  // more: 3 to 20 % where nothing was too large, most of all where clusters have ranks, which suppose an
  // empty GPU. Below the limits calls took up to 2 % less, and losses alone up to 3 %
  // (kernels/MEASUREMENTS.md, "Early starts of few rows").
  constexpr int64_t kMostBytes = int64_t(600) << 20, kMostBytesOfClusters = int64_t(256) << 20;
  int64_t bytes = 0;
  for (const TensorMap &map : artifact().tensorMaps) {
    const auto &matrix = std::get<TensorRef>(arguments[map.parameter]);
    bytes += matrix.elements() * static_cast<int64_t>(elementBytes(matrix.element));
  }
  return startsEarly_ && bytes <= (artifact().clusterCtas > 1 ? kMostBytesOfClusters : kMostBytes);
}

Status CudaKernel::launch(ArgumentSpan arguments, CUstream stream) const {
  TW_ASSIGN_OR_RETURN(const Grid grid, gridFor(artifact(), arguments));
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return {};
  if (!artifact().persistent) TW_RETURN_IF_ERROR(checkGrid(artifact(), grid));
  const std::array<unsigned, 3> ctas = ctasFor(artifact(), grid, multiprocessors_);
  ArgumentSlots slots;
  for (const KernelArgument &argument : arguments)
    slots.append(argument);
  if (artifact().ranksClusters)
    slots.append(reinterpret_cast<intptr_t>(ranksOf(ctas[0] / artifact().clusterCtas)));
  Parameters parameters(slots);

  CurrentContext current(*context_);
  TW_RETURN_IF_ERROR(current.status());
  for (std::size_t i = 0; i < tensorMaps_.size(); ++i) {
    const KernelArgument &argument = arguments[artifact().tensorMaps[i].parameter];
    TW_RETURN_IF_ERROR(
        tensorMaps_[i]->describe(context_->driver(), std::get<TensorRef>(argument), parameters.appendMap()));
  }
  LaunchAttributes attributes(artifact(), startsEarly(arguments));
  const CUlaunchConfig config = {ctas[0],
                                 ctas[1],
                                 ctas[2],
                                 static_cast<unsigned>(artifact().threads),
                                 1,
                                 1,
                                 static_cast<unsigned>(artifact().sharedBytes),
                                 stream,
                                 attributes.data(),
                                 attributes.count()};
  const CUresult result =
      context_->driver().cuLaunchKernelEx(&config, function_, parameters.addresses(), nullptr);
  if (result == CUDA_SUCCESS) return {};
  const Status cause = context_->driver().error(result, "cuLaunchKernelEx");
  return kernelError(artifact(), cause.saying(describeLaunch(config) + cause.message()));
}

} // namespace tilewright::cuda
