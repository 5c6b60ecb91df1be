#pragma once

#include "tests/support/loss_run.h"

namespace tilewright::test {

/// What runs of the losses in tests are made of.

DeviceTensor poisonedVector(Device &device, ElementType element, int64_t size);
DeviceTensor poisonedMatrix(Device &device, ElementType element, int64_t rows, int64_t columns, int64_t gap);

/// No tensor of no values.
template <typename T>
DeviceTensor givenVector(Device &device, ElementType element, const std::vector<T> &values) {
  return values.empty() ? DeviceTensor() : DeviceTensor::vector(device, element, values);
}

/// The tensors that both losses have.
struct CommonTensors {
  DeviceTensor label, gradOutput, classWeight, gradLse, gradEntropy;
  DeviceTensor loss, lse, entropy, argmax, correct, monitored;

  CommonTensors(Device &device, const LossCase &data, const LossCall &call);
};

/// Gradients of linear cross entropy; those of the parameters begin with what the data says is in them.
struct GradientTensors {
  DeviceTensor hidden, weight, bias;

  GradientTensors(Device &device, const LossCase &data, const LossCall &call);
};

LinearCrossEntropyTensors tensorsOf(const CommonTensors &common, const GradientTensors &gradients);
LinearCrossEntropyOptions optionsOf(const LossCase &data, const LossCall &call);

/// Adds a tensor's values to what came back.
void collect(LossResult &result, std::vector<double> &values, const DeviceTensor &tensor);
void collectCommon(LossResult &result, const CommonTensors &common);

} // namespace tilewright::test
