#include "runtime/cpu/cpu_device.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>

#include <unistd.h>

#include "compiler/base/byte_text.h"
#include "compiler/base/elapsed.h"
#include "compiler/base/hash.h"
#include "runtime/argument_slots.h"
#include "runtime/cpu/aligned_memory.h"
#include "runtime/cpu/object_loader.h"
#include "runtime/cpu/processors.h"
#include "runtime/cpu/resident_memory.h"

namespace tilewright {
namespace {

/// What the CPU lowering compiles a kernel to; runs one program.
using Program = void (*)(const int64_t *slots, const int64_t *programId, void *scratch);

class CpuKernel final : public LoadedKernel {
public:
  CpuKernel(Artifact artifact, std::unique_ptr<LoadedObject> code)
      : LoadedKernel(std::move(artifact)), code_(std::move(code)) {}
  Program program() const { return reinterpret_cast<Program>(code_->entry()); }

private:
  std::unique_ptr<LoadedObject> code_;
};

/// Programs [begin, end) in their order: axis 0 varies fastest.
void runPrograms(Program program, const int64_t *slots, const int64_t *grid, int64_t begin, int64_t end,
                 void *scratch) {
  int64_t id[3] = {begin % grid[0], begin / grid[0] % grid[1], begin / grid[0] / grid[1]};
  for (int64_t n = begin; n < end; ++n) {
    program(slots, id, scratch);
    if (++id[0] < grid[0]) continue;
    id[0] = 0;
    if (++id[1] < grid[1]) continue;
    id[1] = 0;
    ++id[2];
  }
}

std::string processorName() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (std::size_t colon = line.find(": "); line.rfind("model name", 0) == 0 && colon != std::string::npos)
      return line.substr(colon + 2);
  return "CPU";
}

DeviceInfo describe(const Target &target, int threads) {
  DeviceInfo info;
  const std::string processor = processorName();
  info.name = processor + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  if (target.str() != hostTarget().str()) info.name += ", code for " + target.arch;
  info.fingerprint = sha256(joinFields({target.str(), processor, std::to_string(threads)}));
  info.memoryBytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  info.units = threads;
  info.cacheBytes = std::max<int64_t>(0, sysconf(_SC_LEVEL2_CACHE_SIZE));
  return info;
}

} // namespace

CpuDevice::CpuDevice(int threads, Target target)
    : target_(std::move(target)), pool_(threads > 0 ? threads : availableCores()),
      info_(describe(target_, pool_.threads())) {}

StatusOr<Buffer> CpuDevice::allocate(std::size_t bytes, Stream) {
  std::shared_ptr<void> memory = allocateAligned(bytes);
  if (!memory)
    return memoryError("not enough memory: " + exactByteText(bytes) + " were asked for, the machine has " +
                       exactByteText(info_.memoryBytes));
  return Buffer(memory.get(), bytes, memory);
}

Status CpuDevice::copyToDevice(void *destination, const void *source, std::size_t bytes, Stream) {
  // memmove: on this device both sides may be parts of one buffer, or null when there is nothing to copy.
  if (bytes > 0) std::memmove(destination, source, bytes);
  return {};
}

Status CpuDevice::copyToHost(void *destination, const void *source, std::size_t bytes, Stream stream) {
  return copyToDevice(destination, source, bytes, stream);
}

Status CpuDevice::copy(void *destination, const void *source, std::size_t bytes, Stream) {
  auto *to = static_cast<char *>(destination);
  auto *from = static_cast<const char *>(source);
  pool_.run(static_cast<int64_t>(bytes),
            [&](int64_t begin, int64_t end) { std::memcpy(to + begin, from + begin, end - begin); });
  return {};
}

Status CpuDevice::fill(void *destination, int byte, std::size_t bytes, Stream) {
  if (bytes > 0) std::memset(destination, byte, bytes);
  return {};
}

StatusOr<std::unique_ptr<LoadedKernel>> CpuDevice::load(const Artifact &artifact) {
  if (slotsOf(artifact) > kMaxSlots)
    return compileError("kernel '" + artifact.kernel + "': expected at most " + std::to_string(kMaxSlots) +
                        " 8-byte parameters, found " + std::to_string(slotsOf(artifact)) +
                        "; use fewer views");
  TW_ASSIGN_OR_RETURN(std::unique_ptr<LoadedObject> code,
                      LoadedObject::load(artifact.binary, artifact.kernel));
  return std::unique_ptr<LoadedKernel>(std::make_unique<CpuKernel>(artifact, std::move(code)));
}

Status CpuDevice::launch(const LoadedKernel &kernel, ArgumentSpan arguments, Stream) {
  auto *loaded = dynamic_cast<const CpuKernel *>(&kernel);
  const Artifact &artifact = kernel.artifact();
  if (!loaded) return userError("kernel '" + artifact.kernel + "' was loaded by another device than the CPU");
  TW_ASSIGN_OR_RETURN(const Grid grid, gridFor(artifact, arguments));
  ArgumentSlots slots;
  for (const KernelArgument &argument : arguments)
    slots.append(argument);

  std::atomic<bool> outOfMemory{false};
  pool_.run(grid[0] * grid[1] * grid[2], [&](int64_t begin, int64_t end) {
    Scratch scratch(artifact.scratchBytes);
    if (artifact.scratchBytes > 0 && !scratch.data())
      outOfMemory = true;
    else
      runPrograms(loaded->program(), slots.data(), grid.data(), begin, end, scratch.data());
  });
  if (outOfMemory)
    return memoryError("not enough memory: kernel '" + artifact.kernel + "' needs " +
                       std::to_string(artifact.scratchBytes) + " bytes of scratch for each of " +
                       std::to_string(pool_.threads()) + " threads");
  return {};
}

Status CpuDevice::synchronize(Stream) { return {}; }

StatusOr<Buffer> CpuDevice::allocateVisible(std::size_t bytes) {
  TW_ASSIGN_OR_RETURN(Buffer buffer, allocate(bytes, nullptr));
  std::memset(buffer.data(), 0, bytes);
  return buffer;
}

StatusOr<double> CpuDevice::time(Stream, const std::function<Status()> &work) {
  const auto begin = std::chrono::steady_clock::now();
  TW_RETURN_IF_ERROR(work());
  return millisecondsSince(begin);
}

int64_t CpuDevice::lastCacheBytes() const {
  std::call_once(lastCacheSought_, [this] {
    int64_t last = tilewright::lastCacheBytes(allowedProcessors());
    if (last == 0) last = sysconf(_SC_LEVEL3_CACHE_SIZE);
    lastCacheBytes_ = std::max(info_.units * info_.cacheBytes, last);
  });
  return lastCacheBytes_;
}

StatusOr<int64_t> CpuDevice::peakBytes(Stream, const std::function<Status()> &work) {
  resetPeakResident();
  const int64_t before = residentBytes();
  TW_RETURN_IF_ERROR(work());
  return std::max<int64_t>(0, peakResidentBytes() - before);
}

} // namespace tilewright
