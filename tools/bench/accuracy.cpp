#include "tools/bench/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/sampled_reference.h"

namespace tilewright {
namespace {

/// All rows count, each with the mean's share of the gradient.
SampledProblem sampled(const LinearProblem &problem) {
  const auto [rows, hidden, classes] = problem.shape;
  SampledProblem all;
  all.hiddenSize = hidden, all.classes = classes;
  all.hidden = problem.hidden.data();
  all.rows.resize(rows);
  std::iota(all.rows.begin(), all.rows.end(), 0);
  all.labels = problem.labels;
  all.gradients.assign(rows, problem.gradOutput() / static_cast<double>(rows));
  all.weight = [&problem, width = hidden](int64_t first, int64_t count) {
    const float *begin = &problem.weight[first * width];
    return StatusOr<std::vector<float>>(std::vector<float>(begin, begin + count * width));
  };
  return all;
}

} // namespace

std::string LossErrors::str() const {
  return fmt::format("loss {:.1e}, dX {:.1e}, dW {:.1e}", loss, dHidden, dWeight);
}

LossErrors allowedErrors(const NumberType &type, int64_t hidden) {
  constexpr double kFewProducts = 8192;
  if (type.tf32) return {1e-3, 4e-3, 4e-3};
  const double gradient = type.element == ElementType::f32 ? 2e-5 : 4e-3;
  return {3e-6 * std::max(1.0, static_cast<double>(hidden) / kFewProducts), gradient, gradient};
}

Status checkErrors(const LossErrors &errors, const NumberType &type, int64_t hidden) {
  const LossErrors allowed = allowedErrors(type, hidden);
  if (errors.loss <= allowed.loss && errors.dHidden <= allowed.dHidden && errors.dWeight <= allowed.dWeight)
    return {};
  return internalError("expected relative errors of at most " + allowed.str() + " against float64, found " +
                       errors.str());
}

void LossErrors::addLoss(double found, double expected, double logitSize) {
  const double error = std::fabs(found - expected) / logitSize;
  loss = error <= loss ? loss : error;
}

double relativeError(const float *a, const double *b, std::size_t count) {
  RelativeError error;
  error.add(a, b, count);
  return error.value();
}

StatusOr<LossErrors> sampledErrors(const LinearProblem &problem, const LinearOutputs &outputs,
                                   int64_t samples) {
  const int64_t hidden = problem.shape.hidden;
  const SampledProblem all = sampled(problem);
  LossErrors errors;
  RelativeError dHidden, dWeight;
  TW_ASSIGN_OR_RETURN(const std::vector<SampledRow> rows, sampleRows(all, samples, !outputs.dHidden.empty()));
  for (const SampledRow &row : rows) {
    errors.addLoss(outputs.lse[row.index], row.lse, row.logitSize);
    if (!row.dHidden.empty()) dHidden.add(&outputs.dHidden[row.index * hidden], row.dHidden.data(), hidden);
  }
  errors.dHidden = dHidden.value();
  if (outputs.dWeight.empty()) return errors;
  for (const int64_t label : spread(samples, problem.shape.classes)) {
    TW_ASSIGN_OR_RETURN(const SampledClass sample, sampleClass(all, label));
    dWeight.add(&outputs.dWeight[label * hidden], weightGradient(all, sample, outputs.lse).data(), hidden);
  }
  errors.dWeight = dWeight.value();
  return errors;
}

} // namespace tilewright
