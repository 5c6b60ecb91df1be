#pragma once

#include "bindings/c/handles.h"

namespace tilewright::c {

/// What is behind the handle of a prepared call. `TensorsOfCall` is what `Prepared` runs on; `readTensors`
/// makes it of the structure that C programs fill in.
template <typename Prepared, typename TensorsOfCall> struct PreparedHandle {
  using Tensors = TensorsOfCall;

  std::shared_ptr<Runtime> runtime;
  DevicePlace place;
  Prepared call;
};

/// Makes the call and its handle. `make` gets the runtime and the tensors, and returns a StatusOr<Prepared>.
template <typename Handle, typename Given, typename Make>
tw_code prepare(tw_runtime *runtime, const Given *given, Handle **handle, tw_error **error,
                const Make &make) noexcept {
  if (handle) *handle = nullptr;
  return guarded(error, [&]() -> Status {
    if (!runtime) return expected("runtime");
    if (!handle) return expected("call");
    typename Handle::Tensors tensors;
    TW_RETURN_IF_ERROR(readTensors(given, runtime->place, Use::prepare, tensors));
    TW_ASSIGN_OR_RETURN(auto prepared, make(*runtime->runtime, tensors));
    *handle = new Handle{{runtime->runtime, runtime->place, std::move(prepared)}};
    return {};
  });
}

/// Whether the call would run on these tensors; false of null.
template <typename Handle, typename Given> int fits(const Handle *handle, const Given *given) noexcept {
  bool doFit = false;
  const tw_code code = guarded(nullptr, [&]() -> Status {
    if (!handle) return expected("call");
    typename Handle::Tensors tensors;
    TW_RETURN_IF_ERROR(readTensors(given, handle->place, Use::run, tensors));
    doFit = handle->call.fits(tensors);
    return {};
  });
  return code == TW_OK && doFit;
}

/// Enqueues the call's work.
template <typename Handle, typename Given>
tw_code run(const Handle *handle, const Given *given, const CallMemory &memory, void *stream,
            tw_error **error) noexcept {
  return guarded(error, [&]() -> Status {
    if (!handle) return expected("call");
    typename Handle::Tensors tensors;
    TW_RETURN_IF_ERROR(readTensors(given, handle->place, Use::run, tensors));
    return handle->call.run(tensors, memory, stream);
  });
}

} // namespace tilewright::c
