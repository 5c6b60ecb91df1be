// The reference's gradients are slopes of its losses, for every option and every two of them.

#include <algorithm>
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "tests/support/loss_features.h"

namespace tilewright::test {
namespace {

/// What the gradients are of: the losses, lse and entropies, each times the gradient that arrives for it.
double objective(const ReferenceResult &result, const LossCall &call) {
  double sum = 0;
  const auto add = [&](const std::vector<double> &values, const std::vector<double> &factors, double absent) {
    for (std::size_t i = 0; i < values.size(); ++i)
      sum += values[i] * (factors.empty() ? absent : factors[factors.size() == 1 ? 0 : i]);
  };
  add(result.loss, call.gradOutput, 1);
  add(result.lse, call.gradLse, 0);
  add(result.entropy, call.gradEntropy, 0);
  return sum;
}

// A power of two, and the numbers it is added to are multiples of it: no step is rounded.
constexpr float kStep = 1.0f / 4096;

void putOnGrid(std::vector<float> &values) {
  for (float &value : values)
    value = std::round(value / kStep) * kStep;
}

/// By the fourth-order central difference.
double slope(float &place, const std::function<double()> &value) {
  const float middle = place;
  const auto at = [&](int steps) {
    place = middle + steps * kStep;
    return value();
  };
  const double slope = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * kStep);
  place = middle;
  return slope;
}

struct Loss {
  LossCase data;
  LossCall call;
  ReferenceResult (*reference)(const LossCase &, const LossCall &);

  void expectSlopes(std::vector<float> &values, const std::vector<double> &gradient, const char *what) {
    ASSERT_EQ(values.size(), gradient.size()) << what;
    LossCall lossAlone = call;
    lossAlone.wantsDHidden = lossAlone.wantsDWeight = lossAlone.wantsDBias = false;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double found = slope(values[i], [&] { return objective(reference(data, lossAlone), lossAlone); });
      ASSERT_NEAR(gradient[i], found, 1e-8 * std::max(1.0, std::fabs(found))) << what << " " << i;
    }
  }
};

Loss makeLoss(const LossCase &data, const std::vector<LossFeature> &features, Reduction reduction,
              ReferenceResult (*reference)(const LossCase &, const LossCall &)) {
  Loss loss{data, {}, reference};
  loss.call.reduction = reduction;
  for (const LossFeature &feature : features)
    feature.apply(loss.data, loss.call);
  loss.call.gradOutput = {-1.5};
  if (reduction == Reduction::none)
    for (int64_t i = 1; i < data.rows; ++i)
      loss.call.gradOutput.push_back(0.3 * (i % 5) - 0.5);
  for (std::vector<float> *values : {&loss.data.x, &loss.data.w, &loss.data.bias})
    putOnGrid(*values);
  return loss;
}

constexpr Reduction kReductions[] = {Reduction::mean, Reduction::sum, Reduction::none};

TEST(ReferenceGradients, OfFactors) {
  const LossCase data = makeCase(DataKind::random, 7, 4, 9, ElementType::f32, IgnorePattern::some);
  for (const std::vector<LossFeature> &features : lossFeatureSets(false))
    for (Reduction reduction : kReductions) {
      SCOPED_TRACE(featureNames(features) + " " + reductionName(reduction));
      Loss loss = makeLoss(data, features, reduction, referenceFor);
      const ReferenceResult result = referenceFor(loss.data, loss.call);
      loss.expectSlopes(loss.data.x, result.dHidden, "dX");
      loss.expectSlopes(loss.data.w, result.dWeight, "dW");
      loss.expectSlopes(loss.data.bias, result.dBias, "db");
    }
}

TEST(ReferenceGradients, OfLogits) {
  LossCase data = makeCase(DataKind::random, 7, 9, 1, ElementType::f32, IgnorePattern::some);
  data.classes = 9;
  for (int64_t i = 0; i < data.rows; ++i)
    if (data.label[i] != data.ignoreIndex) data.label[i] = (5 * i + 2) % 9;
  for (const std::vector<LossFeature> &features : lossFeatureSets(true))
    for (Reduction reduction : kReductions) {
      SCOPED_TRACE(featureNames(features) + " " + reductionName(reduction));
      Loss loss = makeLoss(data, features, reduction, logitsReferenceFor);
      const ReferenceResult result = logitsReferenceFor(loss.data, loss.call);
      loss.expectSlopes(loss.data.x, result.dLogits, "dZ");
    }
}

} // namespace
} // namespace tilewright::test
