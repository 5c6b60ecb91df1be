#include "tools/bench/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tilewright {
namespace {

double dotProduct(const float *a, const float *b, int64_t size) {
  double sum = 0;
  for (int64_t k = 0; k < size; ++k)
    sum += static_cast<double>(a[k]) * b[k];
  return sum;
}

/// What arrives for a logit, of a class that has this probability in its row.
double logitGradient(const LinearProblem &problem, double probability, bool isLabel) {
  return (probability - (isLabel ? 1 : 0)) * problem.gradOutput() / static_cast<double>(problem.shape.rows);
}

/// One row in float64.
struct RowReference {
  double lse = 0;
  double logitSize = 1;
  std::vector<double> dHidden; ///< of the mean over all rows
};

RowReference referenceRow(const LinearProblem &problem, int64_t row) {
  const auto [rows, hidden, classes] = problem.shape;
  const float *x = &problem.hidden[row * hidden];
  std::vector<double> logits(classes);
  RowReference reference;
  double top = -INFINITY, sum = 0;
  for (int64_t j = 0; j < classes; ++j) {
    logits[j] = dotProduct(x, &problem.weight[j * hidden], hidden);
    top = std::max(top, logits[j]);
    reference.logitSize = std::max(reference.logitSize, std::fabs(logits[j]));
  }
  for (double logit : logits)
    sum += std::exp(logit - top);
  reference.lse = top + std::log(sum);
  reference.dHidden.assign(hidden, 0.0);
  for (int64_t j = 0; j < classes; ++j) {
    const double factor =
        logitGradient(problem, std::exp(logits[j] - reference.lse), j == problem.labels[row]);
    const float *w = &problem.weight[j * hidden];
    for (int64_t k = 0; k < hidden; ++k)
      reference.dHidden[k] += factor * w[k];
  }
  return reference;
}

std::vector<double> referenceClass(const LinearProblem &problem, const std::vector<float> &lse,
                                   int64_t label) {
  const auto [rows, hidden, classes] = problem.shape;
  std::vector<double> dWeight(hidden, 0.0);
  for (int64_t i = 0; i < rows; ++i) {
    const float *x = &problem.hidden[i * hidden];
    const double logit = dotProduct(x, &problem.weight[label * hidden], hidden);
    const double factor = logitGradient(problem, std::exp(logit - lse[i]), problem.labels[i] == label);
    for (int64_t k = 0; k < hidden; ++k)
      dWeight[k] += factor * x[k];
  }
  return dWeight;
}

/// The k-th of `samples` positions spread over [0, size).
int64_t samplePosition(int64_t k, int64_t samples, int64_t size) {
  return samples < 2 ? 0 : k * (size - 1) / (samples - 1);
}

/// Accumulates what a norm over several pieces needs.
struct ErrorSum {
  double difference = 0, reference = 0;
  void add(const float *a, const double *b, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      reference += b[i] * b[i];
    }
  }
  double relative() const {
    return reference > 0 ? std::sqrt(difference / reference) : std::sqrt(difference);
  }
};

} // namespace

std::string LossErrors::str() const {
  return fmt::format("loss {:.1e}, dX {:.1e}, dW {:.1e}", loss, dHidden, dWeight);
}

LossErrors allowedErrors(const NumberType &type) {
  if (type.tf32) return {1e-3, 4e-3, 4e-3};
  const double gradient = type.element == ElementType::f32 ? 2e-5 : 4e-3;
  return {3e-6, gradient, gradient};
}

Status checkErrors(const LossErrors &errors, const NumberType &type) {
  const LossErrors allowed = allowedErrors(type);
  if (errors.loss <= allowed.loss && errors.dHidden <= allowed.dHidden && errors.dWeight <= allowed.dWeight)
    return {};
  return internalError("expected relative errors of at most " + allowed.str() + " against float64, found " +
                       errors.str());
}

double relativeError(const float *a, const double *b, std::size_t count) {
  ErrorSum sum;
  sum.add(a, b, count);
  return sum.relative();
}

LossErrors sampledErrors(const LinearProblem &problem, const LinearOutputs &outputs, int64_t samples) {
  const auto [rows, hidden, classes] = problem.shape;
  LossErrors errors;
  ErrorSum dHidden, dWeight;
  for (int64_t k = 0; k < std::min(samples, rows); ++k) {
    const int64_t row = samplePosition(k, std::min(samples, rows), rows);
    const RowReference reference = referenceRow(problem, row);
    const double error = std::fabs(outputs.lse[row] - reference.lse) / reference.logitSize;
    errors.loss = error <= errors.loss ? errors.loss : error; // keeps NaN
    if (outputs.dHidden.empty()) continue;
    dHidden.add(&outputs.dHidden[row * hidden], reference.dHidden.data(), hidden);
  }
  if (outputs.dWeight.empty()) return errors;
  for (int64_t k = 0; k < std::min(samples, classes); ++k) {
    const int64_t label = samplePosition(k, std::min(samples, classes), classes);
    dWeight.add(&outputs.dWeight[label * hidden], referenceClass(problem, outputs.lse, label).data(), hidden);
  }
  errors.dHidden = dHidden.relative();
  errors.dWeight = dWeight.relative();
  return errors;
}

} // namespace tilewright
