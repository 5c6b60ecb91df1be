#include "kernels/lce/kernel_set.h"
#include "kernels/lce/launches.h"
#include "kernels/lce_execution.h"

namespace tilewright::lce {
namespace {

class RehearsedCall final : public Rehearsal {
public:
  RehearsedCall(Device &device, Stream stream, const Problem &problem, const Config &config,
                KernelSet kernels, const LinearCrossEntropyTensors &tensors,
                const LinearCrossEntropyOptions &options, const Buffer &memory)
      : problem_(problem), config_(config), kernels_(std::move(kernels)), memory_(memory),
        launches_(device, stream, problem_, config_, kernels_, tensors, options,
                  layOut(problem_, config_, memory_.data(), lentMemory(tensors.dWeight))) {}

  Status run() override { return launches_.run(); }
  Status prepare(ProductKind product) override { return launches_.prepareProduct(product); }
  Status repeat(ProductKind product) override { return launches_.launchProduct(product); }

private:
  const Problem problem_;
  const Config config_;
  const KernelSet kernels_;
  const Buffer memory_;
  Launches launches_;
};

} // namespace

StatusOr<std::unique_ptr<Rehearsal>> Rehearsal::make(Runtime &runtime, const Problem &problem,
                                                     const Config &config,
                                                     const LinearCrossEntropyTensors &tensors,
                                                     const LinearCrossEntropyOptions &options,
                                                     const Buffer &workspace, Stream stream) {
  TW_ASSIGN_OR_RETURN(KernelSet kernels, makeKernels(runtime, problem, config));
  return std::unique_ptr<Rehearsal>(std::make_unique<RehearsedCall>(
      runtime.device(), stream, problem, config, std::move(kernels), tensors, options, workspace));
}

} // namespace tilewright::lce
