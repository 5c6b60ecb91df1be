#include "tools/bench/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/base/parallel.h"
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
  all.weight = [&problem, width = hidden](int64_t first, int64_t) {
    return StatusOr<const float *>(&problem.weight[first * width]);
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

StatusOr<std::vector<float>> downloadSamples(Device &device, const TensorRef &matrix, int64_t samples) {
  std::vector<float> values;
  for (const int64_t row : spread(samples, matrix.sizes[0])) {
    TW_ASSIGN_OR_RETURN(const std::vector<float> found, download(device, matrix.rows(row, 1)));
    values.insert(values.end(), found.begin(), found.end());
  }
  return values;
}

StatusOr<SampledOutputs> downloadSamples(Device &device, const LinearCrossEntropyTensors &tensors,
                                         int64_t samples) {
  SampledOutputs outputs{samples, {}, {}, {}};
  TW_ASSIGN_OR_RETURN(outputs.lse, download(device, tensors.lse));
  if (tensors.dHidden.data) {
    TW_ASSIGN_OR_RETURN(outputs.dHidden, downloadSamples(device, tensors.dHidden, samples));
  }
  if (tensors.dWeight.data) {
    TW_ASSIGN_OR_RETURN(outputs.dWeight, downloadSamples(device, tensors.dWeight, samples));
  }
  return outputs;
}

namespace {

/// Of the samples' rows of dW.
StatusOr<double> weightError(const SampledProblem &problem, const SampledOutputs &outputs) {
  std::vector<SampledClass> classes;
  for (const int64_t label : spread(outputs.samples, problem.classes)) {
    TW_ASSIGN_OR_RETURN(SampledClass sample, sampleClass(problem, label));
    classes.push_back(std::move(sample));
  }
  std::vector<std::vector<double>> expected(classes.size());
  parallelFor(static_cast<int64_t>(classes.size()),
              [&](int64_t c) { expected[c] = weightGradient(problem, classes[c], outputs.lse); });
  RelativeError error;
  for (std::size_t c = 0; c < classes.size(); ++c)
    error.add(&outputs.dWeight[c * problem.hiddenSize], expected[c].data(), problem.hiddenSize);
  return error.value();
}

} // namespace

StatusOr<LossErrors> sampledErrors(const LinearProblem &problem, const SampledOutputs &outputs) {
  const SampledProblem all = sampled(problem);
  TW_ASSIGN_OR_RETURN(const std::vector<SampledRow> rows,
                      sampleRows(all, outputs.samples, !outputs.dHidden.empty()));
  LossErrors errors;
  RelativeError dHidden;
  for (std::size_t s = 0; s < rows.size(); ++s) {
    errors.addLoss(outputs.lse[rows[s].index], rows[s].lse, rows[s].logitSize);
    if (!outputs.dHidden.empty())
      dHidden.add(&outputs.dHidden[s * all.hiddenSize], rows[s].dHidden.data(), all.hiddenSize);
  }
  errors.dHidden = dHidden.value();
  if (outputs.dWeight.empty()) return errors;
  TW_ASSIGN_OR_RETURN(errors.dWeight, weightError(all, outputs));
  return errors;
}

} // namespace tilewright
