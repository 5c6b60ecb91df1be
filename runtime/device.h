#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "compiler/artifact.h"
#include "compiler/base/status.h"
#include "compiler/target.h"

namespace tilewright {

/// A tensor in a device's memory, not owned. Rows are `rowStride` elements apart, elements of a row are
/// adjacent.
struct TensorRef {
  void *data = nullptr;
  ElementType element = ElementType::f32;
  int rank = 0;
  int64_t sizes[2] = {0, 0};
  int64_t rowStride = 0;

  static TensorRef vector(void *data, ElementType element, int64_t size);
  static TensorRef matrix(void *data, ElementType element, int64_t rows, int64_t columns);

  /// Rows [first, first + count) of this tensor.
  TensorRef rows(int64_t first, int64_t count) const;
  /// Columns [first, first + count) of this matrix.
  TensorRef columns(int64_t first, int64_t count) const;
  int64_t elements() const { return rank == 1 ? sizes[0] : sizes[0] * sizes[1]; }
};

/// What one kernel parameter is bound to, in the order of `Artifact::parameters`.
using KernelArgument = std::variant<TensorRef, int64_t, float>;

/// A launch's arguments, not owned. Made from a vector or a braced list of a call, whose elements live until
/// the call returns; nothing is copied, so a launch needs no heap.
struct ArgumentSpan {
  const KernelArgument *data = nullptr;
  std::size_t size = 0;

  ArgumentSpan() = default;
  ArgumentSpan(const KernelArgument *data, std::size_t size) : data(data), size(size) {}
  ArgumentSpan(const std::vector<KernelArgument> &arguments)
      : data(arguments.data()), size(arguments.size()) {}
  ArgumentSpan(std::initializer_list<KernelArgument> arguments) : size(arguments.size()) {
    data = arguments.begin(); // not in the initialisers, where GCC warns of what the comment above says
  }

  const KernelArgument *begin() const { return data; }
  const KernelArgument *end() const { return data + size; }
  const KernelArgument &operator[](std::size_t i) const { return data[i]; }
};

/// Number of programs along each of three axes, 1 where there is none.
using Grid = std::array<int64_t, 3>;

/// A queue of work in order: a CUstream on CUDA, null (everything is synchronous) on the CPU.
using Stream = void *;

struct DeviceInfo {
  std::string name;        ///< as a person reads it: "AMD EPYC …, 2 threads"
  std::string fingerprint; ///< equal where tuning results carry over
  int64_t memoryBytes = 0;
  int units = 1;           ///< threads of a CPU, multiprocessors of a GPU
  int64_t sharedBytes = 0; ///< of a GPU: shared memory that one program may have
  std::string assembler;   ///< what `Device::assemble` depends on; empty when it does nothing
  int64_t cacheBytes = 0;  ///< second-level cache: of a CPU's core, of a whole GPU; 0 when not known
  bool warpgroups = false; ///< of a GPU: its code may use wgmma and TMA
};

/// Device memory, from `Device::allocate`; freed when its last copy goes.
class Buffer {
public:
  Buffer() = default;
  Buffer(void *data, std::size_t bytes, std::shared_ptr<void> owner)
      : data_(data), bytes_(bytes), owner_(std::move(owner)) {}
  void *data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

private:
  void *data_ = nullptr;
  std::size_t bytes_ = 0;
  std::shared_ptr<void> owner_;
};

/// A kernel that a device has loaded. Launched only through the device that made it.
class LoadedKernel {
public:
  explicit LoadedKernel(Artifact artifact) : artifact_(std::move(artifact)) {}
  virtual ~LoadedKernel() = default;
  const Artifact &artifact() const { return artifact_; }

private:
  Artifact artifact_;
};

/// Where kernels run. All calls may be made from any thread; none throws. Those that wait for the device
/// (`copyToDevice`, `copyToHost`, `synchronize`, `time`, `peakBytes`) also return the errors of the work they
/// waited for, once they have done what they were called for.
class Device {
public:
  virtual ~Device() = default;
  virtual const DeviceInfo &info() const = 0;
  virtual const Target &target() const = 0;

  /// Memory for work that is enqueued on `stream` from now on. It is freed in the stream's order too, behind
  /// the work that is then enqueued; other streams' work on it must be done by then, and the stream must
  /// still exist. Nothing waits for the device, so a call that allocates can be captured in a CUDA graph.
  virtual StatusOr<Buffer> allocate(std::size_t bytes, Stream stream) = 0;
  /// Returns when `source` may change again.
  virtual Status copyToDevice(void *destination, const void *source, std::size_t bytes, Stream stream) = 0;
  /// Returns when the bytes have arrived.
  virtual Status copyToHost(void *destination, const void *source, std::size_t bytes, Stream stream) = 0;
  /// Between places in the device's memory that do not overlap; nothing waits.
  virtual Status copy(void *destination, const void *source, std::size_t bytes, Stream stream) = 0;
  virtual Status fill(void *destination, int byte, std::size_t bytes, Stream stream) = 0;

  /// Ok where kernels that are enqueued on `stream` may read and write at `address`, and for a null pointer.
  /// Else a user error says what was found there: a kernel that uses it would end all kernels of the process.
  /// While the stream is captured, an address that the driver does not know is fine: memory that the captured
  /// work allocates is there when the graph runs. Nothing waits.
  virtual Status checkAddress(const void *address, Stream stream) const;
  /// The same of memory that the host uses too, at the same address: that of `allocateVisible`, and what else
  /// a caller has of its kind.
  virtual Status checkVisible(const void *address) const;

  /// Makes the artifact's binary from its assembly, on devices whose compiler stops at assembly: what a cache
  /// keeps is then ready to be loaded. A compile error carries the assembler's messages.
  virtual Status assemble(Artifact &artifact);
  virtual StatusOr<std::unique_ptr<LoadedKernel>> load(const Artifact &artifact) = 0;
  /// Checks the arguments against the artifact's parameters, computes the grid from their sizes and enqueues
  /// it. A launch that succeeds allocates nothing from the heap.
  virtual Status launch(const LoadedKernel &kernel, ArgumentSpan arguments, Stream stream) = 0;
  virtual Status synchronize(Stream stream) = 0;
  /// Whether what is enqueued on the stream goes into a CUDA graph instead of running; then nothing may wait
  /// for the device.
  virtual bool isCapturing(Stream stream) const = 0;
  /// Host memory that kernels reach at the same address, so that the host can read what they write without a
  /// copy: pinned memory of a GPU. Zeros at first.
  virtual StatusOr<Buffer> allocateVisible(std::size_t bytes) = 0;

  /// Milliseconds that the work enqueued by `work` takes on the device, its launch gaps included.
  virtual StatusOr<double> time(Stream stream, const std::function<Status()> &work) = 0;
  /// The caches before memory, of all units; 0 when not known.
  virtual int64_t lastCacheBytes() const { return info().cacheBytes; }
  /// How fast its units run at the moment; 0 where the device does not tell.
  virtual double clockMegahertz() { return 0; }
  /// The most memory, in bytes, that was in use at a time while the device did what `work` enqueues on the
  /// stream, over what was in use before. Other threads' memory counts too.
  virtual StatusOr<int64_t> peakBytes(Stream stream, const std::function<Status()> &work) = 0;
};

/// The grid for these arguments; a user error names the parameter whose argument does not fit.
StatusOr<Grid> gridFor(const Artifact &artifact, ArgumentSpan arguments);

} // namespace tilewright
