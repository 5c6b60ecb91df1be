#include "runtime/cuda/context.h"

#include "compiler/base/log.h"

namespace tilewright::cuda {

StatusOr<std::shared_ptr<const Context>> Context::retain(const Driver &driver, CUdevice device) {
  CUcontext context = nullptr;
  TW_RETURN_IF_ERROR(TW_CUDA(driver, cuDevicePrimaryCtxRetain, &context, device));
  return std::shared_ptr<const Context>(new Context(driver, device, context));
}

Context::~Context() {
  OutsideCapture outside(driver_); // another thread may be capturing a stream
  if (Status released = TW_CUDA(driver_, cuDevicePrimaryCtxRelease, device_); !released.ok())
    logDebug(released.message());
}

std::string Context::pciAddress() const {
  char text[64] = "";
  return driver_.cuDeviceGetPCIBusId(text, sizeof text, device_) == CUDA_SUCCESS ? text : "";
}

} // namespace tilewright::cuda
