// Options of cross entropy over logits against float64, alone and in pairs.

#include <map>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/support/loss_features.h"
#include "tests/support/loss_run.h"

namespace tilewright::test {
namespace {

/// One runtime a device for all tests: kernels are compiled once.
Runtime &runtimeFor(const std::string &device) {
  static std::map<std::string, std::unique_ptr<Runtime>> runtimes;
  auto &runtime = runtimes[device];
  if (!runtime) runtime = openRuntime(device);
  return *runtime;
}

using Case = std::tuple<std::string, ElementType, std::vector<LossFeature>>;

class LogitsOptions : public testing::TestWithParam<Case> {
protected:
  void check(LossCase data, LossCall call) {
    const auto &[device, element, features] = GetParam();
    for (const LossFeature &feature : features)
      feature.apply(data, call);
    SCOPED_TRACE(std::to_string(data.rows) + "x" + std::to_string(data.classes) + " " + call.str());
    expectClose(runCrossEntropy(runtimeFor(device), data, call), logitsReferenceFor(data, call), data);
  }
};

std::vector<double> upstream(Reduction reduction, int64_t rows) {
  if (reduction != Reduction::none) return {-1.25};
  std::vector<double> g;
  for (int64_t i = 0; i < rows; ++i)
    g.push_back(0.25 * (i % 5) - 0.375);
  return g;
}

TEST_P(LogitsOptions, MatchReference) {
  const ElementType element = std::get<ElementType>(GetParam());
  const LossCase cases[] = {
      logitsCase(DataKind::random, 33, 4096, element),
      logitsCase(DataKind::random, 37, 131, element, IgnorePattern::some),
      logitsCase(DataKind::peaked, 40, 2999, element, IgnorePattern::firstHalf),
  };
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
    for (const LossCase &data : cases) {
      LossCall call;
      call.reduction = reduction;
      call.gradOutput = upstream(reduction, data.rows);
      call.inPlace = reduction == Reduction::mean;
      check(data, call);
    }
}

TEST_P(LogitsOptions, LongRows) {
  LossCall call;
  call.inPlace = true;
  check(logitsCase(DataKind::random, 4, 80000, std::get<ElementType>(GetParam())), call);
}

TEST_P(LogitsOptions, LossAlone) {
  LossCall call;
  call.wantsDHidden = false;
  check(logitsCase(DataKind::peaked, 20, 3001, std::get<ElementType>(GetParam()), IgnorePattern::some), call);
}

std::string nameOf(const testing::TestParamInfo<Case> &info) {
  const auto &[device, element, features] = info.param;
  return device + "_" + elementName(element) + "_" + featureNames(features);
}

INSTANTIATE_TEST_SUITE_P(Sweep, LogitsOptions,
                         testing::Combine(testing::ValuesIn(testDevices()),
                                          testing::Values(ElementType::f32, ElementType::bf16),
                                          testing::ValuesIn(lossFeatureSets(true))),
                         nameOf);

} // namespace
} // namespace tilewright::test
