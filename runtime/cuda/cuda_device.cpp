#include "runtime/cuda/cuda_device.h"

#include <algorithm>
#include <utility>

#include "compiler/base/byte_text.h"
#include "runtime/cuda/assembler.h"
#include "runtime/cuda/cuda_kernel.h"
#include "runtime/cuda/placement.h"
#include "runtime/cuda/power_limit.h"

namespace tilewright {
namespace {

using namespace cuda;

constexpr int kRankedCtas = 2; ///< of a cluster, in every kernel that asks for ranks

CUdeviceptr addressOf(const void *memory) { return reinterpret_cast<CUdeviceptr>(memory); }
CUstream queueOf(Stream stream) { return static_cast<CUstream>(stream); }

/// By default a pool gives its memory back whenever the device is waited for, and every call would map its
/// workspace anew. What it keeps the driver takes back when another allocation of the process needs it. What
/// somebody else has set stays.
Status keepPooledMemory(const Driver &driver, CUmemoryPool pool) {
  uint64_t threshold = 0;
  TW_RETURN_IF_ERROR(
      TW_CUDA(driver, cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  if (threshold > 0) return {};
  threshold = UINT64_MAX;
  return TW_CUDA(driver, cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
}

/// They are for speed alone, so whatever fails leaves them empty. Only Hopper's kernels ask for them.
Buffer ranksOf(const std::shared_ptr<const Context> &context, const DeviceDescription &description) {
  if (!description.info.warpgroups) return {};
  StatusOr<Buffer> ranks = placeRanks(context, description.info, kRankedCtas);
  if (ranks.ok()) return *std::move(ranks);
  logDebug("clusters keep the order of their numbers: " + ranks.status().message());
  return {};
}

Status noSuchDevice(int index, int count) {
  return noDeviceError("expected a CUDA device with index " + std::to_string(index) + ", found " +
                       (count == 1
                            ? "one device, cuda:0"
                            : std::to_string(count) + " devices, up to cuda:" + std::to_string(count - 1)) +
                       "; name one of those, or see what CUDA_VISIBLE_DEVICES hides");
}

StatusOr<Event> recordEvent(const std::shared_ptr<const Context> &context, CUstream stream) {
  const Driver &driver = context->driver();
  CUevent created = nullptr;
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuEventCreate, &created, 0));
  Event event(context, created);
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuEventRecord, event.get(), stream));
  return event;
}

void freeInOrder(const Context &context, void *memory, CUstream stream) {
  CurrentContext current(context);
  Status freed = current.status();
  if (freed.ok()) freed = TW_CUDA(context.driver(), cuMemFreeAsync, addressOf(memory), stream);
  if (!freed.ok()) logDebug(freed.message());
}

} // namespace

StatusOr<std::unique_ptr<Device>> CudaDevice::open(const Driver &driver, int index,
                                                   PowerLimitReader powerLimit, const std::string &target,
                                                   const std::vector<std::string> &toolFolders) {
  OutsideCapture outside(driver); // another thread may be capturing a stream
  int count = 0;
  CUdevice device = 0;
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuDeviceGetCount, &count));
  if (index < 0 || index >= count) return noSuchDevice(index, count);
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuDeviceGet, &device, index));
  TW_ASSIGN_OR_RETURN(DeviceDescription description, describeDevice(driver, device, powerLimit, target));
  description.index = index;
  std::optional<Ptxas> ptxas = Ptxas::find(toolFolders, description.driverVersion);
  // What it makes differs from what the driver's assembler makes: the cache keeps them apart.
  if (ptxas) description.info.assembler += ", ptxas " + ptxas->release();
  TW_ASSIGN_OR_RETURN(std::shared_ptr<const Context> context, Context::retain(driver, device));
  CUmemoryPool pool = nullptr;
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuDeviceGetMemPool, &pool, device));
  TW_RETURN_IF_ERROR(keepPooledMemory(driver, pool));
  Buffer ranks = ranksOf(context, description);
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(std::move(context), std::move(description),
                                                              pool, std::move(ranks), std::move(ptxas)));
}

Status CudaDevice::notEnough(std::size_t bytes, const Status &cause) const {
  std::size_t free = 0, total = 0;
  if (context_->driver().cuMemGetInfo(&free, &total) != CUDA_SUCCESS) return cause;
  return cause.in("not enough memory: " + exactByteText(bytes) + " were asked for, the device has " +
                  exactByteText(free) + " free of " + exactByteText(total));
}

StatusOr<Buffer> CudaDevice::allocate(std::size_t bytes, Stream stream) {
  CurrentContext current(*context_);
  TW_RETURN_IF_ERROR(current.status());
  const Driver &driver = context_->driver();
  CUdeviceptr address = 0;
  // Tensors without elements have an address too.
  const CUresult result = driver.cuMemAllocAsync(&address, std::max<std::size_t>(bytes, 1), queueOf(stream));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return notEnough(bytes, driver.error(result, "cuMemAllocAsync"));
  TW_RETURN_IF_ERROR(driver.check(result, "cuMemAllocAsync"));
  std::shared_ptr<void> memory(reinterpret_cast<void *>(address),
                               [context = context_, stream = queueOf(stream)](void *memory) {
                                 freeInOrder(*context, memory, stream);
                               });
  return Buffer(memory.get(), bytes, memory);
}

Status CudaDevice::copyToDevice(void *destination, const void *source, std::size_t bytes, Stream stream) {
  if (bytes == 0) return {};
  CurrentContext current(*context_);
  TW_RETURN_IF_ERROR(current.status());
  const Driver &driver = context_->driver();
  TW_RETURN_IF_ERROR(
      TW_CUDA(driver, cuMemcpyHtoDAsync, addressOf(destination), source, bytes, queueOf(stream)));
  return wait(queueOf(stream));
}

Status CudaDevice::copyToHost(void *destination, const void *source, std::size_t bytes, Stream stream) {
  if (bytes == 0) return {};
  CurrentContext current(*context_);
  TW_RETURN_IF_ERROR(current.status());
  const Driver &driver = context_->driver();
  TW_RETURN_IF_ERROR(
      TW_CUDA(driver, cuMemcpyDtoHAsync, destination, addressOf(source), bytes, queueOf(stream)));
  return wait(queueOf(stream));
}

Status CudaDevice::copy(void *destination, const void *source, std::size_t bytes, Stream stream) {
  if (bytes == 0) return {};
  CurrentContext current(*context_);
  TW_RETURN_IF_ERROR(current.status());
  return TW_CUDA(context_->driver(), cuMemcpyDtoDAsync, addressOf(destination), addressOf(source), bytes,
                 queueOf(stream));
}

Status CudaDevice::fill(void *destination, int byte, std::size_t bytes, Stream stream) {
  if (bytes == 0) return {};
  CurrentContext current(*context_);
  TW_RETURN_IF_ERROR(current.status());
  return TW_CUDA(context_->driver(), cuMemsetD8Async, addressOf(destination),
                 static_cast<unsigned char>(byte), bytes, queueOf(stream));
}

struct CudaDevice::AddressFacts {
  unsigned type = 0, managed = 0;
  int ordinal = 0;              ///< of the device whose memory it is
  bool isReachedAsItIs = false; ///< kernels reach host memory there by the same address
  bool isKnown() const { return type != 0 || managed; }
  bool isOfADevice() const { return type == CU_MEMORYTYPE_DEVICE && !managed; }
};

StatusOr<CudaDevice::AddressFacts> CudaDevice::factsOf(const void *address) const {
  CurrentContext current(*context_);
  TW_RETURN_IF_ERROR(current.status());
  AddressFacts facts;
  CUdeviceptr reached = 0;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                      CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
  void *values[] = {&facts.type, &facts.managed, &facts.ordinal, &reached};
  TW_RETURN_IF_ERROR(
      TW_CUDA(context_->driver(), cuPointerGetAttributes, 4, attributes, values, addressOf(address)));
  facts.isReachedAsItIs = reached == addressOf(address);
  return facts;
}

Status CudaDevice::checkReached(const AddressFacts &facts) const {
  if (facts.managed) return {};
  if (facts.isOfADevice())
    return facts.ordinal == description_.index
               ? Status()
               : notReached("memory of device " + std::to_string(facts.ordinal));
  if (description_.reachesHostMemory) return {};
  if (facts.type == CU_MEMORYTYPE_HOST)
    return facts.isReachedAsItIs ? Status() : notReached("host memory that is not mapped for it");
  return notReached("host memory");
}

Status CudaDevice::checkAddress(const void *address, Stream stream) const {
  if (!address) return {};
  TW_ASSIGN_OR_RETURN(const AddressFacts facts, factsOf(address));
  if (!facts.isKnown() && stream && isCapturing(stream)) return {};
  return checkReached(facts);
}

Status CudaDevice::checkVisible(const void *address) const {
  if (!address) return {};
  TW_ASSIGN_OR_RETURN(const AddressFacts facts, factsOf(address));
  if (facts.isOfADevice())
    return notReached("memory of device " + std::to_string(facts.ordinal), "host memory (pinned)");
  return checkReached(facts);
}

Status CudaDevice::notReached(const std::string &found, const std::string &expected) const {
  return userError("expected " + expected + " that kernels of device cuda:" +
                   std::to_string(description_.index) + " reach, found " + found);
}

bool CudaDevice::assembledByProgram(Artifact &artifact) {
  if (!ptxas_) return false;
  const bool isOneArchOnly = target().arch.back() == 'a';
  StatusOr<std::string> cubin =
      ptxas_->assemble(artifact.kernel, artifact.assembly, isOneArchOnly ? target().arch : description_.arch);
  if (cubin.ok())
    artifact.binary = *std::move(cubin);
  else
    logWarning(cubin.status().message() + "\nthe driver's assembler is asked instead");
  return cubin.ok();
}

Status CudaDevice::assemble(Artifact &artifact) {
  if (!artifact.binary.empty() || assembledByProgram(artifact) || isLoadedAsPtx(artifact)) return {};
  TW_ASSIGN_OR_RETURN(artifact.binary, assemblePtx(context_, artifact.kernel, artifact.assembly));
  return {};
}

StatusOr<std::unique_ptr<LoadedKernel>> CudaDevice::load(const Artifact &artifact) {
  const bool isRanked = artifact.ranksClusters && artifact.clusterCtas == kRankedCtas;
  return CudaKernel::load(context_, artifact, description_, isRanked ? ranks_ : Buffer());
}

Status CudaDevice::launch(const LoadedKernel &kernel, ArgumentSpan arguments, Stream stream) {
  auto *loaded = dynamic_cast<const CudaKernel *>(&kernel);
  if (!loaded || !loaded->isOf(*context_))
    return userError("kernel '" + kernel.artifact().kernel + "' was loaded by another device than this GPU");
  return loaded->launch(arguments, queueOf(stream));
}

Status CudaDevice::synchronize(Stream stream) {
  CurrentContext current(*context_);
  TW_RETURN_IF_ERROR(current.status());
  return wait(queueOf(stream));
}

Status CudaDevice::wait(CUstream stream) { return TW_CUDA(context_->driver(), cuStreamSynchronize, stream); }

bool CudaDevice::isCapturing(Stream stream) const {
  CurrentContext current(*context_);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // The legacy default stream answers with an error while any other stream is captured: it may not wait then.
  return context_->driver().cuStreamIsCapturing(queueOf(stream), &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

StatusOr<Buffer> CudaDevice::allocateVisible(std::size_t bytes) {
  CurrentContext current(*context_);
  TW_RETURN_IF_ERROR(current.status());
  OutsideCapture outside(context_->driver());
  TW_ASSIGN_OR_RETURN(HostMemory memory, allocateMapped(context_, bytes));
  auto owner = std::make_shared<HostMemory>(std::move(memory));
  void *address = owner->get();
  return Buffer(address, bytes, std::move(owner));
}

StatusOr<double> CudaDevice::time(Stream stream, const std::function<Status()> &work) {
  CurrentContext current(*context_);
  TW_RETURN_IF_ERROR(current.status());
  const Driver &driver = context_->driver();
  TW_ASSIGN_OR_RETURN(const Event begin, recordEvent(context_, queueOf(stream)));
  TW_RETURN_IF_ERROR(work());
  TW_ASSIGN_OR_RETURN(const Event end, recordEvent(context_, queueOf(stream)));
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuEventSynchronize, end.get()));
  float milliseconds = 0;
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuEventElapsedTime, &milliseconds, begin.get(), end.get()));
  return static_cast<double>(milliseconds);
}

double CudaDevice::clockMegahertz() {
  std::call_once(clockSought_, [&] { clock_.emplace(context_->pciAddress()); });
  return clock_->megahertz().value_or(0);
}

StatusOr<uint64_t> CudaDevice::poolStatistic(CUmemPool_attribute attribute) const {
  uint64_t bytes = 0;
  TW_RETURN_IF_ERROR(TW_CUDA(context_->driver(), cuMemPoolGetAttribute, pool_, attribute, &bytes));
  return bytes;
}

StatusOr<int64_t> CudaDevice::peakBytes(Stream stream, const std::function<Status()> &work) {
  CurrentContext current(*context_);
  TW_RETURN_IF_ERROR(current.status());
  TW_RETURN_IF_ERROR(wait(queueOf(stream)));
  uint64_t none = 0; // the mark falls to what is in use
  TW_RETURN_IF_ERROR(
      TW_CUDA(context_->driver(), cuMemPoolSetAttribute, pool_, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &none));
  TW_ASSIGN_OR_RETURN(const uint64_t before, poolStatistic(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  TW_RETURN_IF_ERROR(work());
  TW_RETURN_IF_ERROR(wait(queueOf(stream)));
  TW_ASSIGN_OR_RETURN(const uint64_t peak, poolStatistic(CU_MEMPOOL_ATTR_USED_MEM_HIGH));
  return static_cast<int64_t>(peak - std::min(before, peak));
}

StatusOr<std::unique_ptr<Device>> openCudaDevice(int index, const std::string &target,
                                                 const std::vector<std::string> &toolFolders) {
  TW_ASSIGN_OR_RETURN(const Driver *driver, loadDriver());
  return CudaDevice::open(*driver, index, powerLimitWatts, target, toolFolders);
}

int cudaDeviceCount() {
  StatusOr<const Driver *> driver = loadDriver();
  int count = 0;
  if (!driver.ok() || (*driver)->cuDeviceGetCount(&count) != CUDA_SUCCESS) return 0;
  return count;
}

} // namespace tilewright
