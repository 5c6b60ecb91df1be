// The reference's losses against the options' definitions, term by term.

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/loss_features.h"

namespace tilewright::test {
namespace {

double dot(const float *a, const float *b, int64_t size) {
  double sum = 0;
  for (int64_t k = 0; k < size; ++k)
    sum += double(a[k]) * b[k];
  return sum;
}

std::vector<double> logitsOf(const LossCase &c, const LossCall &call, int64_t i) {
  const float *x = &c.x[i * c.hidden];
  std::vector<double> z;
  for (int64_t j = 0; j < c.classes; ++j) {
    const float *w = &c.w[j * c.hidden];
    const double product = dot(x, w, c.hidden);
    const double cosine = product / std::sqrt(dot(x, x, c.hidden) * dot(w, w, c.hidden));
    double t = call.logitScale * (product + (c.bias.empty() ? 0.0 : c.bias[j]));
    if (call.softcap) t = *call.softcap * std::tanh(t / *call.softcap);
    if (call.lmcl) t = call.lmcl->scale * (cosine - (j == c.label[i] ? call.lmcl->margin : 0));
    z.push_back(t);
  }
  return z;
}

/// One row, and the sums over rows that reductions divide.
struct Sums {
  double main = 0, extra = 0, weights = 0, rows = 0;
  double lse = 0, squares = 0, entropy = 0, norm = 0, correct = 0, largest = -INFINITY;
};

void addRow(Sums &sums, const LossCase &c, const LossCall &call, int64_t i) {
  const std::vector<double> z = logitsOf(c, call, i);
  const auto u = [&](int64_t j) { return c.classWeight.empty() ? 1.0 : c.classWeight[j]; };
  double total = 0, entropy = 0, all = 0, squares = 0;
  for (double logit : z)
    total += std::exp(logit), squares += logit * logit;
  const double lse = std::log(total), y = z[c.label[i]];
  for (int64_t j = 0; j < c.classes; ++j) {
    entropy -= std::exp(z[j]) / total * std::log(std::exp(z[j]) / total);
    all += u(j) * (lse - z[j]);
  }
  const double A = call.labelSmoothing;
  sums.main += call.objective == Objective::prob
                   ? -std::exp(y) / total
                   : (1 - A) * u(c.label[i]) * (lse - y) + A / double(c.classes) * all;
  sums.extra += call.zLoss * lse * lse;
  sums.weights += u(c.label[i]), sums.rows += 1;
  sums.lse += lse, sums.squares += lse * lse, sums.entropy += entropy, sums.norm += std::sqrt(squares);
  sums.correct += *std::max_element(z.begin(), z.end()) == y;
  sums.largest = std::max(sums.largest, *std::max_element(z.begin(), z.end()));
}

void expectMonitored(const ReferenceResult &result, const Sums &sums) {
  const double want[] = {
      sums.largest,         sums.norm / sums.rows,   sums.entropy / sums.rows, sums.squares / sums.rows,
      sums.lse / sums.rows, sums.correct / sums.rows};
  for (int64_t k = 0; k < kMonitoredQuantities; ++k)
    EXPECT_NEAR(result.monitored[k], want[k], 1e-11) << monitoredName(static_cast<Monitored>(k));
}

TEST(ReferenceValues, FollowTheDefinitions) {
  const LossCase plain = makeCase(DataKind::random, 11, 4, 9, ElementType::f32, IgnorePattern::some);
  for (const std::vector<LossFeature> &features : lossFeatureSets(false)) {
    SCOPED_TRACE(featureNames(features));
    LossCase data = plain;
    LossCall call;
    for (const LossFeature &feature : features)
      feature.apply(data, call);
    Sums all;
    call.reduction = Reduction::none;
    const ReferenceResult rows = referenceFor(data, call);
    for (int64_t i = 0; i < data.rows; ++i) {
      Sums row;
      if (data.label[i] != data.ignoreIndex) addRow(row, data, call, i), addRow(all, data, call, i);
      EXPECT_NEAR(rows.loss[i], row.main + row.extra, 1e-12);
      EXPECT_NEAR(rows.lse[i], row.lse, 1e-12);
      EXPECT_NEAR(rows.entropy[i], row.entropy, 1e-12);
      EXPECT_EQ(rows.correct[i], row.correct);
    }
    expectMonitored(rows, all);
    call.reduction = Reduction::sum;
    EXPECT_NEAR(referenceFor(data, call).loss[0], all.main + all.extra, 1e-11);
    call.reduction = Reduction::mean;
    EXPECT_NEAR(referenceFor(data, call).loss[0], all.main / all.weights + all.extra / all.rows, 1e-12);
  }
}

// PyTorch divides 0 by 0 here.
TEST(ReferenceValues, WeightsThatAreAllZeroGiveNoLoss) {
  LossCase data = makeCase(DataKind::random, 5, 3, 4, ElementType::f32);
  data.classWeight = {0, 0, 0, 0};
  const ReferenceResult result = referenceFor(data, {});
  EXPECT_EQ(result.loss[0], 0);
  for (double dx : result.dHidden)
    EXPECT_EQ(dx, 0);
}

TEST(ReferenceValues, TheFirstOfEqualLogitsIsTheLargest) {
  LossCase data = makeCase(DataKind::constant, 6, 3, 4, ElementType::f32);
  data.label = {0, 1, 2, 3, data.ignoreIndex, 0};
  const ReferenceResult result = referenceFor(data, {});
  EXPECT_EQ(result.argmax, (std::vector<double>{0, 0, 0, 0, -1, 0}));
  EXPECT_EQ(result.correct, (std::vector<double>{1, 0, 0, 0, 0, 1}));
}

} // namespace
} // namespace tilewright::test
