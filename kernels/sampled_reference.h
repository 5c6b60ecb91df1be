#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "compiler/base/status.h"

namespace tilewright {

/// Linear cross entropy in float64 for a few rows and classes, where computing all of them would take too
/// long. The logits are X·Wᵀ, without bias and without options.
struct SampledProblem {
  int64_t hiddenSize = 0, classes = 0;
  const float *hidden = nullptr; ///< all rows of X, one behind the other
  std::vector<int64_t> rows;     ///< those that are not ignored
  std::vector<int64_t> labels;   ///< of each of `rows`
  std::vector<double> gradients; ///< of each of `rows`: the gradient that arrives for its loss
  /// Some rows of W, one behind the other, until the next call.
  std::function<StatusOr<const float *>(int64_t first, int64_t count)> weight;
};

struct SampledRow {
  std::size_t index = 0; ///< in `SampledProblem::rows`
  double lse = 0;
  double logitSize = 1;        ///< the largest |logit|, at least 1
  std::vector<double> dHidden; ///< empty where it was not asked for
};

/// `count` rows, or all if there are fewer. W is read from its first row to its last, once for the losses and
/// once for the gradient.
StatusOr<std::vector<SampledRow>> sampleRows(const SampledProblem &problem, int64_t count, bool gradient);

struct SampledClass {
  int64_t label = 0;
  std::vector<double> logits; ///< of each of `SampledProblem::rows`
};
StatusOr<SampledClass> sampleClass(const SampledProblem &problem, int64_t label);

/// A class's row of dW. It takes every row's lse, which a result that is to be checked has; `lse` is indexed
/// by row.
std::vector<double> weightGradient(const SampledProblem &problem, const SampledClass &sample,
                                   const std::vector<float> &lse);

/// `count` of the numbers below `size`, spread evenly, the first and the last among them.
std::vector<int64_t> spread(int64_t count, int64_t size);

double dotProduct(const float *a, const float *b, int64_t size);

/// |a − b| / |b| in the Euclidean norm over all that was added; |a − b| where b is 0.
class RelativeError {
public:
  void add(const float *a, const double *b, std::size_t count);
  double value() const;

private:
  double difference_ = 0, size_ = 0; ///< squared
};

} // namespace tilewright
