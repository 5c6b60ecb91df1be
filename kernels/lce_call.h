#pragma once

#include "kernels/lce/program.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/program/prepared_call.h"

namespace tilewright::lce {

/// What the tensors and options of a call ask for; user errors as `linearCrossEntropy` promises them, those
/// of labels and workspace limits aside.
StatusOr<Request> requestFor(const LinearCrossEntropyTensors &tensors,
                             const LinearCrossEntropyOptions &options, const DeviceInfo &device,
                             CallPass pass = CallPass::fused, const VocabularyShard &shard = {});

/// Whether the matrices of the products, and all of their rows, begin at multiples of 16 bytes.
bool areAligned(const LinearCrossEntropyTensors &tensors);

/// The configuration that the options pin, else the planned one.
StatusOr<Config> pinnedOrPlanned(const Request &request, const LinearCrossEntropyOptions &options,
                                 const DeviceInfo &device);

/// How a call is made on such a device.
struct CallPlan {
  Request request;
  Config config;
  Scheme scheme;
};
StatusOr<CallPlan> planCall(const LinearCrossEntropyTensors &tensors,
                            const LinearCrossEntropyOptions &options, const DeviceInfo &device,
                            CallPass pass = CallPass::fused);

/// The program of a call that is planned for such a device; nothing is compiled or loaded.
StatusOr<Program> plannedProgram(const LinearCrossEntropyTensors &tensors,
                                 const LinearCrossEntropyOptions &options, CallPass pass,
                                 const DeviceInfo &device, TargetKind target);

/// A call in a configuration of one's own.
StatusOr<std::shared_ptr<const PreparedCall>> prepareCall(Runtime &runtime, const Request &request,
                                                          const Config &config,
                                                          const LinearCrossEntropyOptions &options);

/// What the ranks of a shared vocabulary tell each other of a chunk.
struct ExchangedTensors {
  TensorRef stats, gathered;
};

/// The caller's tensors by their ids.
class TensorsById {
public:
  explicit TensorsById(const LinearCrossEntropyTensors &tensors);
  TensorsById(const LinearCrossEntropyTensors &tensors, const ExchangedTensors &exchanged);
  operator TensorPointers() const { return pointers_; }

private:
  const TensorRef *pointers_[TensorTable::kCapacity];
};

/// The kernels of one product alone, one after the other: whoever compiles many has threads enough.
Status compileProduct(Runtime &runtime, const Request &request, const Config &config, ProductKind product);

} // namespace tilewright::lce
