// The reference is checked by other means: values known in closed form and, in
// reference_gradients_test.cpp, finite differences.

#include <cmath>

#include <gtest/gtest.h>

#include "kernels/reference.h"
#include "tests/support/loss_case.h"

namespace tilewright::test {
namespace {

ReferenceResult run(const LossCase &c, const ReferenceOptions &options = {}) {
  return referenceLinearCrossEntropy(c.x.data(), c.w.data(), c.label.data(), c.rows, c.hidden, c.classes,
                                     options);
}

TEST(Reference, EqualLogitsCostTheLogarithmOfTheirNumber) {
  const ReferenceResult result = run(makeCase(DataKind::constant, 300, 4, 50, ElementType::f32));
  EXPECT_NEAR(result.loss[0], std::log(50), 1e-13);
  for (double dx : result.dHidden)
    EXPECT_NEAR(dx, 0, 1e-17);
}

TEST(Reference, SmallAndLargeLossesKeepTheirDigits) {
  const float logits[] = {100, 0, 0, 5000};
  const int64_t labels[] = {0, 0};
  ReferenceOptions options;
  options.reduction = Reduction::none;
  const ReferenceResult result = referenceCrossEntropy(logits, labels, 2, 2, options);
  EXPECT_NEAR(result.loss[0] / std::exp(-100), 1, 1e-14);
  EXPECT_NEAR(result.dLogits[0] / -std::exp(-100), 1, 1e-14);
  EXPECT_EQ(result.loss[1], 5000);
}

TEST(Reference, LogitsAgreeWithTheirFactors) {
  LossCase c = makeCase(DataKind::random, 20, 5, 5, ElementType::f32);
  for (int64_t j = 0; j < 25; ++j)
    c.w[j] = j / 5 == j % 5; // logits = hidden states
  const ReferenceResult linear = run(c);
  const ReferenceResult logits = referenceCrossEntropy(c.x.data(), c.label.data(), 20, 5, {});
  EXPECT_NEAR(linear.loss[0], logits.loss[0], 1e-14);
  for (int64_t i = 0; i < 100; ++i)
    EXPECT_NEAR(linear.dHidden[i], logits.dLogits[i], 1e-15);
}

} // namespace
} // namespace tilewright::test
