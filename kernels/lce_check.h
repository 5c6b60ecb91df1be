#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/lce/plan.h"
#include "kernels/linear_cross_entropy.h"
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
  int64_t validRows() const { return static_cast<int64_t>(valid_.size()); }

  /// An internal error names the output that is wrong, by how much, and what is allowed.
  Status check();

private:
  struct Row {
    int64_t row = 0;
    double lse = 0;
    std::vector<double> dHidden;
  };
  struct Class {
    int64_t label = 0;
    std::vector<double> logits;  ///< of every valid row
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
  Status computeRows();
  Status computeClasses();

  Status checkLosses(const std::vector<float> &lse) const;
  Status checkDHidden() const;
  Status checkDWeight() const;
  void computeDWeight(const std::vector<float> &lse);
  Status compare(const Sketch &sketch) const;
  Status compareRows(const std::string &name, const RowSketches &now, const RowSketches &before) const;
  StatusOr<RowSketches> sketch(const TensorRef &matrix) const;
  StatusOr<std::vector<float>> readRows(const TensorRef &matrix, int64_t first, int64_t count) const;
  /// Relative to the largest logit.
  double allowedLossError() const { return p_.tf32 ? 1e-3 : 6e-6; }
  double allowedGradientError() const { return p_.element == ElementType::f32 && !p_.tf32 ? 4e-5 : 8e-3; }

  Runtime *runtime_;
  Device *device_;
  Stream stream_;
  Request p_;
  LinearCrossEntropyTensors t_;

  std::vector<float> hidden_;       ///< X
  std::vector<int64_t> valid_;      ///< rows that are not ignored
  std::vector<int64_t> label_;      ///< of the valid rows
  std::vector<double> gradient_;    ///< what multiplies a valid row's gradient
  std::vector<double> targetLogit_; ///< of the valid rows
  double logitSize_ = 1;            ///< the largest |logit| seen
  std::vector<Row> rows_;
  std::vector<Class> classes_;
  std::optional<Sketch> accepted_;
};

} // namespace tilewright::lce
