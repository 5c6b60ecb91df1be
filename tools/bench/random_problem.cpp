#include "tools/bench/random_problem.h"

#include <cmath>

#include "compiler/base/parallel.h"

namespace tilewright {
namespace {

/// The `i`-th number of SplitMix64, good enough for data to measure with.
uint64_t randomBits(uint64_t seed, int64_t i) {
  uint64_t z = seed + (static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

} // namespace

std::vector<float> randomNumbers(int64_t count, double deviation, uint64_t seed) {
  std::vector<float> values(count);
  // The sum of four uniform numbers of [0, 1) has mean 2 and deviation sqrt(4/12).
  const double scale = deviation * std::sqrt(3.0);
  parallelPieces(count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t bits = randomBits(seed, i);
      const uint64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
      values[i] = static_cast<float>(scale * (static_cast<double>(sum) / 65536 - 2));
    }
  });
  return values;
}

LinearProblem randomProblem(const ProblemShape &shape, ElementType element, uint64_t seed) {
  LinearProblem problem{shape, element, {}, {}, {}};
  const double deviation = 1 / std::sqrt(static_cast<double>(shape.hidden));
  problem.hidden = rounded(randomNumbers(shape.rows * shape.hidden, 1, seed), element);
  problem.weight = rounded(randomNumbers(shape.classes * shape.hidden, deviation, seed + 1), element);
  problem.labels.resize(shape.rows);
  for (int64_t i = 0; i < shape.rows; ++i)
    problem.labels[i] = static_cast<int64_t>(randomBits(seed + 2, i) % shape.classes);
  return problem;
}

LinearProblem peakedProblem(const ProblemShape &shape, ElementType element, uint64_t seed) {
  constexpr double kDeviation = 4;
  // 86 % of a normal distribution lie below 1.08; two logits differ by √2 times the deviation of one.
  constexpr double kAbove = 30 * 0.6931 + 1.08 * 1.4142 * kDeviation;
  LinearProblem problem = randomProblem(shape, element, seed);
  // W's rows have norm 1: adding a multiple of one raises its logit by as much, and no other by more than
  // chance.
  for (int64_t i = 0; i < shape.rows; ++i) {
    float *x = &problem.hidden[i * shape.hidden];
    const float *w = &problem.weight[problem.labels[i] * shape.hidden];
    for (int64_t h = 0; h < shape.hidden; ++h)
      x[h] = static_cast<float>(kDeviation * x[h] + kAbove * w[h]);
  }
  problem.hidden = rounded(std::move(problem.hidden), element);
  return problem;
}

LinearCrossEntropyTensors LinearProblemTensors::refs() const {
  return {hidden.ref, weight.ref, label.ref, gradOutput.ref, loss.ref, lse.ref, dHidden.ref, dWeight.ref};
}

StatusOr<LinearProblemTensors> uploadProblem(Device &device, const LinearProblem &problem,
                                             bool wideWeightGradient) {
  const auto [rows, hidden, classes] = problem.shape;
  const ElementType element = problem.element;
  LinearProblemTensors tensors;
  TW_ASSIGN_OR_RETURN(tensors.hidden, uploadFloats(device, element, {rows, hidden}, problem.hidden));
  TW_ASSIGN_OR_RETURN(tensors.weight, uploadFloats(device, element, {classes, hidden}, problem.weight));
  TW_ASSIGN_OR_RETURN(tensors.label, uploadBytes(device, ElementType::i64, {rows}, problem.labels.data()));
  if (const float g = problem.gradOutput(); g != 1) {
    TW_ASSIGN_OR_RETURN(tensors.gradOutput, uploadFloats(device, ElementType::f32, {1}, {g}));
  }
  TW_ASSIGN_OR_RETURN(tensors.loss, allocateTensor(device, ElementType::f32, {1}));
  TW_ASSIGN_OR_RETURN(tensors.lse, allocateTensor(device, ElementType::f32, {rows}));
  TW_ASSIGN_OR_RETURN(tensors.dHidden, allocateTensor(device, element, {rows, hidden}));
  const ElementType dWeight = wideWeightGradient ? ElementType::f32 : element;
  TW_ASSIGN_OR_RETURN(tensors.dWeight, allocateTensor(device, dWeight, {classes, hidden}));
  return tensors;
}

StatusOr<LinearOutputs> downloadOutputs(Device &device, const LinearProblemTensors &tensors) {
  LinearOutputs outputs;
  TW_ASSIGN_OR_RETURN(const std::vector<float> loss, download(device, tensors.loss.ref));
  outputs.loss = loss[0];
  TW_ASSIGN_OR_RETURN(outputs.lse, download(device, tensors.lse.ref));
  TW_ASSIGN_OR_RETURN(outputs.dHidden, download(device, tensors.dHidden.ref));
  TW_ASSIGN_OR_RETURN(outputs.dWeight, download(device, tensors.dWeight.ref));
  return outputs;
}

} // namespace tilewright
