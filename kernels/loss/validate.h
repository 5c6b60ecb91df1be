#pragma once

#include <cstdint>
#include <string>

#include "compiler/base/status.h"
#include "kernels/loss/kernels.h"
#include "kernels/loss_options.h"
#include "runtime/device.h"

namespace tilewright {

/// Checks of the losses' tensors; each user error names the tensor, what was expected and what was found.

/// A matrix of f32, bf16 or f16 with rows that do not overlap.
Status checkMatrix(const TensorRef &tensor, const std::string &name);
Status checkShape(const TensorRef &tensor, const std::string &name, int64_t rows, int64_t columns);
/// A gradient: a matrix of this shape, f32 or the inputs' type.
Status checkGradient(const TensorRef &tensor, const std::string &name, int64_t rows, int64_t columns,
                     ElementType element);
/// X (N×H) and W (V×H): matrices of one type and as many columns.
Status checkLinearInputs(const TensorRef &hidden, const TensorRef &weight);
/// TF32 is for products of f32.
Status checkTf32(bool tf32, ElementType element);
/// Row and class numbers must fit the kernels' i32.
Status checkSizes(int64_t rows, int64_t classes);

/// What every loss has beside its matrices.
struct LossTensors {
  TensorRef label, gradOutput, loss, lse;
};
Status checkLossTensors(const LossTensors &tensors, int64_t rows, Reduction reduction, bool wantsLoss = true);
/// A f32 for each row, which is there.
Status checkRowValues(const TensorRef &tensor, const std::string &name, int64_t rows);

/// What options bring along; null where they are off.
struct OptionTensors {
  TensorRef classWeight, gradLse, gradEntropy, entropy, argmax, correct, monitored;
};
RowOutputs outputsOf(const OptionTensors &tensors);
Status checkOptionTensors(const OptionTensors &tensors, int64_t rows, int64_t classes);
/// A bias: a vector, f32 or the inputs' type.
Status checkBias(const TensorRef &tensor, const std::string &name, int64_t classes, ElementType element);

/// What a (checked) upstream gradient is.
Upstream upstreamOf(const TensorRef &gradOutput, int64_t rows, Reduction reduction);

} // namespace tilewright
