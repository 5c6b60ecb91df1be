#pragma once

#include <cstdint>
#include <vector>

#include "compiler/base/status.h"
#include "kernels/linear_cross_entropy.h"
#include "tools/cli/arguments.h"
#include "tools/io/tensors.h"

namespace tilewright {

/// `count` numbers of mean 0 and the given deviation, from a sum of uniform ones (no tails beyond 3.5
/// deviations).
std::vector<float> randomNumbers(int64_t count, double deviation, uint64_t seed);

/// Linear + cross entropy on random data: logits of deviation 1, uniform labels. The matrices' values are
/// already rounded to `element`.
struct LinearProblem {
  ProblemShape shape;
  ElementType element = ElementType::f32;
  std::vector<float> hidden, weight;
  std::vector<int64_t> labels;

  /// The gradient that arrives for the loss. f16 cannot hold most of a mean's gradients: they come 2^16 times
  /// as large, which is how PyTorch's GradScaler begins.
  float gradOutput() const { return element == ElementType::f16 ? 65536 : 1; }
};
LinearProblem randomProblem(const ProblemShape &shape, ElementType element, uint64_t seed);

/// As of a trained model: the label's logit stands so far above the others, of deviation 4, that 86 % of
/// these have an exponential below 2^-30 of the label's.
LinearProblem peakedProblem(const ProblemShape &shape, ElementType element, uint64_t seed);

/// A problem on a device, with gradients of the inputs' type, or dW in fp32.
struct LinearProblemTensors {
  OwnedTensor hidden, weight, label, gradOutput, loss, lse, dHidden, dWeight;
  LinearCrossEntropyTensors refs() const;
};
StatusOr<LinearProblemTensors> uploadProblem(Device &device, const LinearProblem &problem,
                                             bool wideWeightGradient = false);

/// What a device computed for a problem.
struct LinearOutputs {
  float loss = 0; ///< the mean
  std::vector<float> lse, dHidden, dWeight;
};
StatusOr<LinearOutputs> downloadOutputs(Device &device, const LinearProblemTensors &tensors);

} // namespace tilewright
