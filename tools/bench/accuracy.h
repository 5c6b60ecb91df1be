#pragma once

#include <string>
#include <vector>

#include "compiler/base/status.h"
#include "tools/bench/random_problem.h"
#include "tools/cli/number_type.h"

namespace tilewright {

/// How far a result lies from float64.
struct LossErrors {
  double loss = 0;    ///< largest error of a row's log-sum-exp, relative to its largest logit (at least 1)
  double dHidden = 0; ///< relative, in the Frobenius norm
  double dWeight = 0;

  /// Takes one row's log-sum-exp into `loss`; NaN stays.
  void addLoss(double found, double expected, double logitSize);
  std::string str() const;
};

/// The errors that this project allows itself for inputs of a type, of logits that are sums of so many
/// products: tensor cores cut off what they add, so that a logit's error grows with their number.
LossErrors allowedErrors(const NumberType &type, int64_t hidden = 1);

/// An internal error that says both when an error exceeds what is allowed, or is NaN.
Status checkErrors(const LossErrors &errors, const NumberType &type, int64_t hidden = 1);

/// |a - b| / |b| in the Euclidean norm.
double relativeError(const float *a, const double *b, std::size_t count);

/// What a device computed, of the rows and classes that are compared.
struct SampledOutputs {
  int64_t samples = 0;                 ///< of rows, and of classes: those of `spread`
  std::vector<float> lse;              ///< of all rows
  std::vector<float> dHidden, dWeight; ///< the samples' rows, one behind the other; or empty
};

/// The rows of a matrix that `spread` takes.
StatusOr<std::vector<float>> downloadSamples(Device &device, const TensorRef &matrix, int64_t samples);
/// Without gradients that the tensors do not have.
StatusOr<SampledOutputs> downloadSamples(Device &device, const LinearCrossEntropyTensors &tensors,
                                         int64_t samples);

/// Compares a few rows and classes only, for problems too large for a whole reference: lse and dX of whole
/// rows are computed in float64; a class's dW from float64 logits and the result's own lse. Gradients that
/// are empty have no errors.
StatusOr<LossErrors> sampledErrors(const LinearProblem &problem, const SampledOutputs &outputs);

} // namespace tilewright
