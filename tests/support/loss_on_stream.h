#pragma once

#include <vector>

#include "kernels/cross_entropy.h"
#include "kernels/gradient_scaling.h"
#include "kernels/linear_cross_entropy.h"
#include "tests/support/device_tensor.h"
#include "tests/support/loss_case.h"

namespace tilewright::test {

/// Linear cross entropy and its gradients on tensors that stay, so that it may be called again and again, on
/// any stream.
class LinearOnStream {
public:
  LinearOnStream(Device &device, const LossCase &data, int64_t workspaceLimit = 0)
      : x_(DeviceTensor::matrix(device, data.element, data.rows, data.hidden, data.x)),
        w_(DeviceTensor::matrix(device, data.element, data.classes, data.hidden, data.w)),
        label_(DeviceTensor::vector(device, ElementType::i64, data.rows)),
        loss_(DeviceTensor::vector(device, ElementType::f32, 1)),
        lse_(DeviceTensor::vector(device, ElementType::f32, data.rows)),
        dX_(DeviceTensor::matrix(device, data.element, data.rows, data.hidden)),
        dW_(DeviceTensor::matrix(device, data.element, data.classes, data.hidden)) {
    label_.setLabels(data.label);
    options_.ignoreIndex = data.ignoreIndex;
    options_.workspaceLimit = workspaceLimit;
    poison();
  }

  LinearCrossEntropyTensors tensors() const {
    LinearCrossEntropyTensors tensors = {};
    tensors.hidden = x_, tensors.weight = w_, tensors.label = label_;
    tensors.loss = loss_, tensors.lse = lse_;
    tensors.dHidden = dX_, tensors.dWeight = dW_;
    return tensors;
  }
  /// Of a backward call, whose forward call has stored the lse.
  LinearCrossEntropyTensors backwardTensors() const {
    LinearCrossEntropyTensors backward = tensors();
    backward.loss = backward.lse = {};
    backward.savedLse = lse_;
    return backward;
  }
  const LinearCrossEntropyOptions &options() const { return options_; }

  Status run(Runtime &runtime, Stream stream) const {
    return linearCrossEntropy(runtime, tensors(), options_, stream).status();
  }
  /// But for the lse, which a backward call needs.
  void poison() {
    for (DeviceTensor *tensor : {&loss_, &dX_, &dW_})
      tensor->poison();
  }
  std::vector<uint8_t> bits() const {
    std::vector<uint8_t> all;
    for (const DeviceTensor *tensor : {&loss_, &dX_, &dW_}) {
      const std::vector<uint8_t> bytes = tensor->bytes();
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }

private:
  DeviceTensor x_, w_, label_, loss_, lse_, dX_, dW_;
  LinearCrossEntropyOptions options_;
};

/// A training step of a mean in prepared calls: the forward call makes the gradients, and these are
/// multiplied by the upstream gradient.
class ScaledOnStream : public LinearOnStream {
public:
  ScaledOnStream(Runtime &runtime, const LossCase &data)
      : LinearOnStream(runtime.device(), data),
        call_(*PreparedLinearCrossEntropy::prepare(runtime, tensors(), options())),
        scaling_(*GradientScaling::prepare(runtime, data.element)),
        upstream_(DeviceTensor::vector(runtime.device(), ElementType::f32, std::vector<float>{0.5f})),
        workspace_(*runtime.device().allocate(call_.workspaceBytes(), nullptr)) {}

  Status run(Runtime &, Stream stream) const {
    const LinearCrossEntropyTensors t = tensors();
    TW_RETURN_IF_ERROR(call_.run(t, {workspace_.data(), call_.workspaceBytes(), {}}, stream));
    TW_RETURN_IF_ERROR(scaling_.run(t.dHidden, upstream_, t.dHidden, stream));
    return scaling_.run(t.dWeight, upstream_, t.dWeight, stream);
  }

private:
  PreparedLinearCrossEntropy call_;
  GradientScaling scaling_;
  DeviceTensor upstream_;
  Buffer workspace_;
};

/// A prepared backward call, from the lse of a forward call that was made before.
class BackwardOnStream : public LinearOnStream {
public:
  BackwardOnStream(Runtime &runtime, const LossCase &data)
      : LinearOnStream(runtime.device(), data), forward_(runForward(runtime)),
        call_(
            *PreparedLinearCrossEntropy::prepare(runtime, backwardTensors(), options(), CallPass::backward)),
        workspace_(*runtime.device().allocate(call_.workspaceBytes(), nullptr)) {
    poison();
  }

  Status run(Runtime &, Stream stream) const {
    TW_RETURN_IF_ERROR(forward_);
    return call_.run(backwardTensors(), {workspace_.data(), call_.workspaceBytes(), {}}, stream);
  }

private:
  Status runForward(Runtime &runtime) const {
    TW_ASSIGN_OR_RETURN(const auto forward,
                        PreparedLinearCrossEntropy::prepare(runtime, tensors(), options()));
    TW_ASSIGN_OR_RETURN(const Buffer memory, runtime.device().allocate(forward.workspaceBytes(), nullptr));
    return forward.run(tensors(), {memory.data(), forward.workspaceBytes(), {}}, nullptr);
  }

  Status forward_;
  PreparedLinearCrossEntropy call_;
  Buffer workspace_;
};

/// The same over logits: those of the case are its hidden states.
class LogitsOnStream {
public:
  LogitsOnStream(Device &device, const LossCase &data)
      : z_(DeviceTensor::matrix(device, data.element, data.rows, data.hidden, data.x)),
        label_(DeviceTensor::vector(device, ElementType::i64, data.rows)),
        loss_(DeviceTensor::vector(device, ElementType::f32, 1)),
        dZ_(DeviceTensor::matrix(device, data.element, data.rows, data.hidden)) {
    label_.setLabels(data.label);
    poison();
  }

  Status run(Runtime &runtime, Stream stream) const {
    CrossEntropyTensors tensors = {};
    tensors.logits = z_, tensors.label = label_, tensors.loss = loss_, tensors.dLogits = dZ_;
    return crossEntropy(runtime, tensors, {}, stream).status();
  }
  void poison() { loss_.poison(), dZ_.poison(); }
  std::vector<uint8_t> bits() const {
    std::vector<uint8_t> all = loss_.bytes();
    const std::vector<uint8_t> gradient = dZ_.bytes();
    all.insert(all.end(), gradient.begin(), gradient.end());
    return all;
  }

private:
  DeviceTensor z_, label_, loss_, dZ_;
};

} // namespace tilewright::test
