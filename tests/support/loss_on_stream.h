#pragma once

#include <vector>

#include "kernels/cross_entropy.h"
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
    tensors.loss = loss_, tensors.dHidden = dX_, tensors.dWeight = dW_;
    return tensors;
  }
  const LinearCrossEntropyOptions &options() const { return options_; }

  Status run(Runtime &runtime, Stream stream) const {
    return linearCrossEntropy(runtime, tensors(), options_, stream).status();
  }
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
  DeviceTensor x_, w_, label_, loss_, dX_, dW_;
  LinearCrossEntropyOptions options_;
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
