#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "kernels/reference.h"
#include "tools/accuracy.h"
#include "tools/contest.h"
#include "tools/random_problem.h"

namespace tilewright {
namespace {

TEST(RandomProblem, isRoundedAndRepeatable) {
  const LinearProblem problem = randomProblem({30, 20, 100}, ElementType::bf16, 5);
  EXPECT_EQ(problem.hidden, rounded(problem.hidden, ElementType::bf16));
  EXPECT_EQ(problem.weight, randomProblem({30, 20, 100}, ElementType::bf16, 5).weight);
  EXPECT_NE(problem.weight, randomProblem({30, 20, 100}, ElementType::bf16, 6).weight);
  for (int64_t label : problem.labels)
    EXPECT_TRUE(label >= 0 && label < 100);
}

TEST(RandomProblem, numbersHaveTheDeviationAskedFor) {
  const std::vector<float> numbers = randomNumbers(100000, 2, 1);
  double sum = 0, squares = 0;
  for (float x : numbers)
    sum += x, squares += static_cast<double>(x) * x;
  EXPECT_NEAR(sum / 100000, 0, 0.03);
  EXPECT_NEAR(std::sqrt(squares / 100000), 2, 0.03);
}

/// The reference's own result, as a device would give it.
LinearOutputs exactOutputs(const LinearProblem &problem) {
  const auto [rows, hidden, classes] = problem.shape;
  const ReferenceResult exact = referenceLinearCrossEntropy(problem.hidden.data(), problem.weight.data(),
                                                            problem.labels.data(), rows, hidden, classes, {});
  const auto floats = [](const std::vector<double> &values) {
    return std::vector<float>(values.begin(), values.end());
  };
  return {static_cast<float>(exact.loss[0]), floats(exact.lse), floats(exact.dHidden), floats(exact.dWeight)};
}

TEST(Accuracy, samplesAgreeWithTheReference) {
  const LinearProblem problem = randomProblem({40, 24, 300}, ElementType::f32, 1);
  const LossErrors errors = sampledErrors(problem, exactOutputs(problem), 8);
  EXPECT_LT(errors.loss, 1e-6);
  EXPECT_LT(errors.dHidden, 1e-6);
  EXPECT_LT(errors.dWeight, 1e-5); // lse in fp32 enters
  EXPECT_TRUE(checkErrors(errors, {ElementType::f32}).ok());
}

TEST(Accuracy, wrongNumbersAndNanAreFound) {
  const LinearProblem problem = randomProblem({8, 8, 8}, ElementType::f32, 1);
  const LinearOutputs exact = exactOutputs(problem);
  const auto isCaught = [&](LinearOutputs outputs) {
    return !checkErrors(sampledErrors(problem, outputs, 8), {ElementType::f32}).ok();
  };
  EXPECT_FALSE(isCaught(exact));
  for (float wrong : {7.0f, NAN}) {
    LinearOutputs outputs = exact;
    outputs.lse[3] = wrong;
    EXPECT_TRUE(isCaught(outputs));
    outputs = exact;
    outputs.dHidden[9] = wrong;
    EXPECT_TRUE(isCaught(outputs));
    outputs = exact;
    outputs.dWeight[9] = wrong;
    EXPECT_TRUE(isCaught(outputs));
  }
}

TEST(Contest, takesTurnsAndReportsMedians) {
  std::vector<int> order;
  double next = 0;
  const Contestant first{"first", [&] { return order.push_back(1), StatusOr<double>(++next); }};
  const Contestant second{"second", [&] { return order.push_back(2), StatusOr<double>(100.0); }};
  StatusOr<ContestResult> result = contest({first, second}, {0.3, 0});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->rounds, 3);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(result->median, (std::vector<double>{3, 100})); // the first round, 1, does not count
  const Contestant failing{"failing", [] { return StatusOr<double>(runtimeError("no")); }};
  EXPECT_FALSE(contest({failing}, {1, 0}).ok());
}

TEST(Contest, theFirstHalfOfALongTurnDoesNotCount) {
  double next = 0;
  const Contestant falling{"falling", [&] {
                             std::this_thread::sleep_for(std::chrono::milliseconds(20));
                             return StatusOr<double>(next++ < 3 ? 100 : 1);
                           }};
  const StatusOr<ContestResult> result = contest({falling}, {1, 0.3});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->rounds, 2);
  EXPECT_EQ(result->median, std::vector<double>{1});
}

TEST(Contest, medians) {
  EXPECT_EQ(medianOf({3, 1, 2}), 2);
  EXPECT_EQ(medianOf({4, 1, 2, 3}), 2.5);
}

} // namespace
} // namespace tilewright
