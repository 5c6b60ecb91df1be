#pragma once

#include <memory>
#include <string>

#include "runtime/cuda/driver.h"

namespace tilewright::cuda {

/// A device's primary context, which CUDA's runtime and every framework on it use too; kept alive by whoever
/// holds it.
class Context {
public:
  static StatusOr<std::shared_ptr<const Context>> retain(const Driver &driver, CUdevice device);
  ~Context();
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  const Driver &driver() const { return driver_; }
  std::string pciAddress() const; ///< empty when the driver does not tell

private:
  friend class CurrentContext;
  Context(const Driver &driver, CUdevice device, CUcontext context)
      : driver_(driver), device_(device), context_(context) {}

  const Driver &driver_;
  const CUdevice device_;
  const CUcontext context_;
};

/// While it lives, the context is this thread's current one, as the driver's calls demand. The caller's comes
/// back afterwards.
class CurrentContext {
public:
  explicit CurrentContext(const Context &context) : driver_(context.driver_) {
    CUcontext current = nullptr;
    result_ = driver_.cuCtxGetCurrent(&current);
    // Nearly always the caller has this context already, and then nothing more is needed.
    if (result_ != CUDA_SUCCESS || current == context.context_) return;
    result_ = driver_.cuCtxPushCurrent(context.context_);
    pushed_ = result_ == CUDA_SUCCESS;
  }
  ~CurrentContext() {
    CUcontext popped = nullptr;
    if (pushed_) driver_.cuCtxPopCurrent(&popped);
  }
  CurrentContext(const CurrentContext &) = delete;
  CurrentContext &operator=(const CurrentContext &) = delete;

  Status status() const { return driver_.check(result_, "cuCtxPushCurrent"); }

private:
  const Driver &driver_;
  CUresult result_ = CUDA_SUCCESS;
  bool pushed_ = false;
};

/// While it lives, this thread may make calls that are not stream-ordered although it captures a stream: a
/// kernel's first use may fall into a capture, and loading its code is no part of the graph.
class OutsideCapture {
public:
  explicit OutsideCapture(const Driver &driver) : driver_(driver) {
    driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~OutsideCapture() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
  OutsideCapture(const OutsideCapture &) = delete;
  OutsideCapture &operator=(const OutsideCapture &) = delete;

private:
  const Driver &driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED; ///< the caller's, once exchanged
};

} // namespace tilewright::cuda
