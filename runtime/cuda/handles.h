#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "compiler/base/log.h"
#include "runtime/cuda/context.h"

namespace tilewright::cuda {

/// Owns one object of the driver, and destroys it in its context when it goes.
template <typename Handle, CUresult (*Driver::*destroy)(Handle)> class Owned {
public:
  Owned(std::shared_ptr<const Context> context, Handle handle)
      : context_(std::move(context)), handle_(handle) {}
  ~Owned() { reset(); }
  Owned(Owned &&other) noexcept
      : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, Handle())) {}
  Owned &operator=(Owned &&other) noexcept {
    reset();
    context_ = std::move(other.context_);
    handle_ = std::exchange(other.handle_, Handle());
    return *this;
  }

  Handle get() const { return handle_; }

private:
  void reset() {
    if (!handle_) return;
    CurrentContext current(*context_);
    const Driver &driver = context_->driver();
    OutsideCapture outside(driver); // another thread may be capturing a stream
    Status destroyed = current.status();
    if (destroyed.ok()) destroyed = driver.check((driver.*destroy)(handle_), "destroying an object");
    if (!destroyed.ok()) logDebug(destroyed.message());
    handle_ = Handle();
  }

  std::shared_ptr<const Context> context_;
  Handle handle_;
};

using Module = Owned<CUmodule, &Driver::cuModuleUnload>;
using OwnStream = Owned<CUstream, &Driver::cuStreamDestroy>;
using DeviceMemory = Owned<CUdeviceptr, &Driver::cuMemFree>; ///< freeing waits for all work of the device
using Event = Owned<CUevent, &Driver::cuEventDestroy>;
using HostMemory = Owned<void *, &Driver::cuMemFreeHost>;
using LinkState = Owned<CUlinkState, &Driver::cuLinkDestroy>;

/// A stream that waits for no other, and for which no other waits. In the context, which is current.
inline StatusOr<OwnStream> makeStream(const std::shared_ptr<const Context> &context) {
  CUstream stream = nullptr;
  TW_RETURN_IF_ERROR(TW_CUDA(context->driver(), cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING));
  return OwnStream(context, stream);
}

/// `bytes` of zeros that kernels may write to and the host reads. In the context, which is current.
inline StatusOr<HostMemory> allocateMapped(const std::shared_ptr<const Context> &context, std::size_t bytes) {
  void *memory = nullptr;
  TW_RETURN_IF_ERROR(TW_CUDA(context->driver(), cuMemHostAlloc, &memory, bytes,
                             CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  std::memset(memory, 0, bytes);
  return HostMemory(context, memory);
}

} // namespace tilewright::cuda
