#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "kernels/reference.h"
#include "kernels/sampled_reference.h"
#include "tools/bench/accuracy.h"
#include "tools/bench/benchmark.h"
#include "tools/bench/random_problem.h"

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

constexpr int64_t kSamples = 8;

/// The rows of a matrix that are compared.
std::vector<float> samplesOf(const std::vector<double> &matrix, int64_t rows, int64_t columns) {
  std::vector<float> samples;
  for (const int64_t row : spread(kSamples, rows))
    samples.insert(samples.end(), &matrix[row * columns], &matrix[row * columns] + columns);
  return samples;
}

/// The reference's own result, as a device would give it.
SampledOutputs exactOutputs(const LinearProblem &problem) {
  const auto [rows, hidden, classes] = problem.shape;
  const ReferenceResult exact = referenceLinearCrossEntropy(problem.hidden.data(), problem.weight.data(),
                                                            problem.labels.data(), rows, hidden, classes, {});
  return {kSamples, std::vector<float>(exact.lse.begin(), exact.lse.end()),
          samplesOf(exact.dHidden, rows, hidden), samplesOf(exact.dWeight, classes, hidden)};
}

TEST(Accuracy, samplesAgreeWithTheReference) {
  const LinearProblem problem = randomProblem({40, 24, 300}, ElementType::f32, 1);
  const LossErrors errors = *sampledErrors(problem, exactOutputs(problem));
  EXPECT_LT(errors.loss, 1e-6);
  EXPECT_LT(errors.dHidden, 1e-6);
  EXPECT_LT(errors.dWeight, 1e-5); // lse in fp32 enters
  EXPECT_TRUE(checkErrors(errors, {ElementType::f32}).ok());
}

TEST(Accuracy, wrongNumbersAndNanAreFound) {
  const LinearProblem problem = randomProblem({8, 8, 8}, ElementType::f32, 1);
  const SampledOutputs exact = exactOutputs(problem);
  const auto isCaught = [&](const SampledOutputs &outputs) {
    return !checkErrors(*sampledErrors(problem, outputs), {ElementType::f32}).ok();
  };
  EXPECT_FALSE(isCaught(exact));
  for (float wrong : {7.0f, NAN}) {
    SampledOutputs outputs = exact;
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

/// Tells a time that the work itself moves on.
struct FakeClock {
  double now = 0;
  Stopwatch stopwatch = [this](const std::function<Status()> &work) -> StatusOr<double> {
    const double begin = now;
    TW_RETURN_IF_ERROR(work());
    return now - begin;
  };
};

TEST(Benchmark, takesTurnsAndReportsMedians) {
  std::vector<int> order;
  FakeClock clock;
  double next = 0;
  const BenchmarkCase first{"first", [&] { return order.push_back(1), clock.now += ++next, Status(); }};
  const BenchmarkCase second{"second", [&] { return order.push_back(2), clock.now += 100, Status(); }};
  StatusOr<BenchmarkResult> result = benchmark(clock.stopwatch, {first, second}, {0.3, 0});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->rounds, 3);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(result->median, (std::vector<double>{3, 100})); // the first run, 1, does not count
  const BenchmarkCase failing{"failing", [] { return runtimeError("no"); }};
  EXPECT_FALSE(benchmark(clock.stopwatch, {failing}, {1, 0}).ok());
}

TEST(Benchmark, theFirstHalfOfALongTurnDoesNotCount) {
  FakeClock clock;
  int runs = 0;
  const BenchmarkCase falling{"falling", [&] {
                                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                                return clock.now += runs++ < 3 ? 100 : 1, Status();
                              }};
  const StatusOr<BenchmarkResult> result = benchmark(clock.stopwatch, {falling}, {1, 0.3});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->rounds, 2);
  EXPECT_EQ(result->median, std::vector<double>{1});
}

TEST(Benchmark, TheFirstRoundOfLongTurnsDoesNotCount) {
  std::vector<int> order;
  FakeClock clock;
  const BenchmarkCase first{"first", [&] { return order.push_back(1), clock.now += order.size(), Status(); }};
  const BenchmarkCase second{"second",
                             [&] { return order.push_back(2), clock.now += order.size(), Status(); }};
  const StatusOr<BenchmarkResult> result =
      benchmark(clock.stopwatch, {first, second}, {1, 1e-9}); // of one run
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(order, (std::vector<int>{1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(result->median, (std::vector<double>{(5 + 7) / 2.0, (6 + 8) / 2.0}));
}

TEST(Benchmark, WaitsSeldomInALongTurn) {
  FakeClock clock;
  int runs = 0, waits = 0;
  const BenchmarkCase quick{"quick", [&] { return ++runs, clock.now += 1, Status(); }};
  const Stopwatch counting = [&](const std::function<Status()> &work) {
    ++waits;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return clock.stopwatch(work);
  };
  const StatusOr<BenchmarkResult> result = benchmark(counting, {quick}, {1, 0.06});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->median, std::vector<double>{1});
  EXPECT_EQ(runs, 1 + 10 * (waits - 1)); // a sixth of 60 ms
}

TEST(Benchmark, medians) {
  EXPECT_EQ(medianOf({3, 1, 2}), 2);
  EXPECT_EQ(medianOf({4, 1, 2, 3}), 2.5);
}

TEST(PeakedProblem, asManyExponentialsAreFlushedAsOfATrainedHead) {
  const ProblemShape shape{512, 1024, 600};
  const LinearProblem problem = peakedProblem(shape, ElementType::bf16, 1);
  const auto logit = [&](int64_t row, int64_t j) {
    const float *x = &problem.hidden[row * shape.hidden];
    return std::inner_product(x, x + shape.hidden, &problem.weight[j * shape.hidden], 0.0);
  };
  int64_t flushed = 0;
  for (int64_t row = 0; row < shape.rows; ++row) {
    const double below = logit(row, problem.labels[row]) - 30 * std::log(2);
    for (int64_t j = 0; j < shape.classes; ++j)
      flushed += logit(row, j) < below;
  }
  EXPECT_NEAR(static_cast<double>(flushed) / static_cast<double>(shape.rows * shape.classes), 0.86, 0.02);
}

} // namespace
} // namespace tilewright
