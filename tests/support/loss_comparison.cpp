#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/loss_run.h"

namespace tilewright::test {
namespace {

/// Of a gradient, in the Frobenius norm.
double tolerance(const LossCase &data) {
  if (data.tf32) return 4e-3;
  switch (data.element) {
  case ElementType::bf16:
    return 4e-3;
  case ElementType::f16:
    return 1e-3;
  default:
    return 2e-5;
  }
}

/// Of a number of the logits' size.
double lossTolerance(const LossCase &data) { return data.tf32 ? 1e-3 : 3e-6; }

void expectLosses(const std::vector<double> &got, const std::vector<double> &want, double tolerance,
                  const char *what) {
  if (got.empty()) return; // not asked for
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], tolerance) << what << " " << i;
}

/// What a gradient's buffer holds once `want` was added to it.
std::vector<double> after(const std::vector<float> &before, std::vector<double> want) {
  for (std::size_t i = 0; i < std::min(before.size(), want.size()); ++i) // no bias has no gradient
    want[i] += before[i];
  return want;
}

void expectRows(const LossResult &result, const ReferenceResult &reference, const LossCase &data) {
  const double tolerance = lossTolerance(data);
  expectLosses(result.lse, reference.lse, tolerance * reference.logitSize, "lse");
  expectLosses(result.entropy, reference.entropy, tolerance * reference.logitSize, "entropy");
  if (!data.tf32) { // which of two logits is larger, TF32 may see otherwise
    EXPECT_TRUE(result.argmax.empty() || result.argmax == reference.argmax);
    EXPECT_TRUE(result.correct.empty() || result.correct == reference.correct);
  }
  for (std::size_t k = 0; k < result.monitored.size(); ++k) {
    if (data.tf32 && static_cast<Monitored>(k) == Monitored::accuracy) continue;
    EXPECT_NEAR(result.monitored[k], reference.monitored[k],
                4 * tolerance * std::max(reference.logitSize, std::abs(reference.monitored[k])))
        << monitoredName(static_cast<Monitored>(k));
  }
}

} // namespace

void expectClose(const LossResult &result, const ReferenceResult &reference, const LossCase &data,
                 double gradientFloor, double ofShifts) {
  ASSERT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_TRUE(result.gapsUntouched);
  // A sum of losses is judged by its terms: their number times the logits' size.
  const bool perRow = reference.loss.size() == reference.lse.size();
  const double terms = perRow ? 1 : std::max<double>(1, std::abs(reference.loss[0]) / reference.logitSize);
  expectLosses(result.loss, reference.loss, lossTolerance(data) * terms * reference.logitSize, "loss");
  expectRows(result, reference, data);
  const auto expectGradient = [&](const std::vector<double> &got, const std::vector<double> &want,
                                  const char *what) {
    if (got.empty()) return;
    EXPECT_LE(relativeError(got, want, gradientFloor), tolerance(data) + ofShifts) << what;
  };
  expectGradient(result.dHidden, reference.dHidden, "dX");
  expectGradient(result.dWeight, after(data.dWeightBefore, reference.dWeight), "dW");
  expectGradient(result.dBias, after(data.dBiasBefore, reference.dBias), "db");
  expectGradient(result.dLogits, reference.dLogits, "dZ");
}

} // namespace tilewright::test
