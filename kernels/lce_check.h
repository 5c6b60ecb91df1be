#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/lce/plan.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/sampled_reference.h"
#include "runtime/runtime.h"

namespace tilewright::lce {

/// Judges results of one call's inputs by what float64 says about a few rows and classes, and by whether
/// everything else agrees with the first result that passed. Reads the device's memory; the inputs must not
/// change.
class Check {
public:
  /// `tensors` have lse, which tells the gradient of a class from all rows.
  static StatusOr<Check> make(Runtime &runtime, Stream stream, const Request &request,
                              const LinearCrossEntropyTensors &tensors,
                              const LinearCrossEntropyOptions &options);

  /// Rows that are not ignored.
  int64_t validRows() const { return static_cast<int64_t>(sampled_.rows.size()); }

  /// An internal error names the output that is wrong, by how much, and what is allowed.
  Status check();

private:
  struct Class : SampledClass {
    std::vector<double> dWeight; ///< from the lse of the first result
  };
  /// Of a matrix, row by row: the sum with one fixed vector of signs, and of squares.
  struct RowSketches {
    std::vector<float> sums, squares;
  };
  /// What is kept of a result to compare others with.
  struct Sketch {
    std::vector<float> lse;
    RowSketches dHidden, dWeight;
  };

  Check(Runtime &runtime, Stream stream, const Request &request, const LinearCrossEntropyTensors &tensors)
      : runtime_(&runtime), device_(&runtime.device()), stream_(stream), p_(request), t_(tensors) {}

  Status readInputs(const LinearCrossEntropyOptions &options);
  Status readGradients();
  Status computeSamples();

  Status checkLosses(const std::vector<float> &lse) const;
  Status checkDHidden() const;
  Status checkDWeight() const;
  Status judge(const std::string &gradient, double error) const;
  void computeDWeight(const std::vector<float> &lse);
  Status compare(const Sketch &sketch) const;
  Status compareRows(const std::string &name, const RowSketches &now, const RowSketches &before) const;
  StatusOr<RowSketches> sketch(const TensorRef &matrix) const;
  StatusOr<std::vector<float>> read(const TensorRef &tensor) const; ///< all of it
  /// Relative to the largest logit.
  double allowedLossError() const { return p_.tf32 ? 1e-3 : 6e-6; }
  double allowedGradientError() const { return p_.element == ElementType::f32 && !p_.tf32 ? 4e-5 : 8e-3; }

  Runtime *runtime_;
  Device *device_;
  Stream stream_;
  Request p_;
  LinearCrossEntropyTensors t_;

  std::vector<float> hidden_;       ///< X
  SampledProblem sampled_;          ///< its rows are those that are not ignored
  std::vector<double> targetLogit_; ///< of each of them: its label's
  double logitSize_ = 1;            ///< the largest |logit| seen
  std::vector<SampledRow> rows_;
  std::vector<Class> classes_;
  std::optional<Sketch> accepted_;
};

} // namespace tilewright::lce
