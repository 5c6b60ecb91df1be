// A vocabulary that ranks share, all of them in this process: losses, gradients and options beside float64,
// with equal bits on all ranks.

#include <map>
#include <numeric>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/sharded_linear_cross_entropy.h"
#include "tests/support/loss_features.h"
#include "tests/support/sharded_run.h"

namespace tilewright::test {
namespace {

using ::testing::HasSubstr;

/// One runtime a device for all tests: kernels are compiled once.
Runtime &runtimeFor(const std::string &device) {
  static std::map<std::string, std::unique_ptr<Runtime>> runtimes;
  auto &runtime = runtimes[device];
  if (!runtime) runtime = openRuntime(device);
  return *runtime;
}

void expectSameBits(const ShardedResult &result) {
  for (std::size_t r = 1; r < result.ranks.size(); ++r) {
    EXPECT_EQ(result.ranks[r].bits, result.ranks[0].bits) << "rank " << r;
    EXPECT_EQ(result.schedules[r], result.schedules[0]);
  }
}

ShardedResult check(const std::string &device, const LossCase &data, const LossCall &call,
                    const Sharding &sharding) {
  SCOPED_TRACE(call.str() + "; " + sharding.str());
  const ShardedResult result = runSharded(runtimeFor(device), data, call, sharding);
  expectClose(result.whole, referenceFor(data, call), data);
  expectSameBits(result);
  return result;
}

LossCall callOf(ElementType element) {
  LossCall call;
  if (element == ElementType::f16) call.gradient = ElementType::f32; // f16 cannot hold the smallest ones
  return call;
}

// ---- How classes and rows are cut ----------------------------------------------------------------------

constexpr ElementType kElements[] = {ElementType::f32, ElementType::bf16, ElementType::f16};

class Sharded : public testing::TestWithParam<std::tuple<std::string, ElementType>> {
protected:
  const std::string device = std::get<0>(GetParam());
  const ElementType element = std::get<1>(GetParam());
};

TEST_P(Sharded, AnyNumberOfRanks) {
  for (const IgnorePattern ignored : {IgnorePattern::none, IgnorePattern::some, IgnorePattern::firstHalf}) {
    const LossCase data = makeCase(DataKind::random, 37, 24, 131, element, ignored);
    for (const int64_t ranks : {1, 2, 3, 8})
      check(device, data, callOf(element), {evenSizes(data.classes, ranks)});
  }
}

TEST_P(Sharded, UnevenShardsInChunks) {
  const LossCase data = makeCase(DataKind::random, 70, 24, 300, element, IgnorePattern::some);
  for (const int64_t chunk : {16, 32, 64, 128}) {
    const ShardedResult result = check(device, data, callOf(element), {{200, 1, 99}, chunk});
    EXPECT_EQ(result.chunks, (70 + chunk - 1) / chunk) << "chunk " << chunk;
    EXPECT_EQ(result.chunkBuffers, result.chunks > 1 ? 2 : 1);
  }
}

TEST_P(Sharded, EveryKindOfData) {
  for (const DataKind kind : kDataKinds) {
    SCOPED_TRACE(dataKindName(kind));
    const LossCase data = makeCase(kind, 50, 24, 200, element);
    // The ranks' parts of dX cancel where all classes look the same.
    const double floor =
        kind == DataKind::constant ? 0.1 * norm({data.w.begin(), data.w.begin() + data.hidden}) : 0;
    for (const bool apart : {false, true}) {
      LossCall call;
      call.gradient = ElementType::f32;
      call.flushSmallProbabilities = kind != DataKind::confident; // of which nothing else is left
      call.apart = apart;
      const ShardedResult result = runSharded(runtimeFor(device), data, call, {{70, 30, 100}, 32});
      expectClose(result.whole, referenceFor(data, call), data, floor);
      expectSameBits(result);
    }
  }
}

TEST_P(Sharded, ARankWithoutLabels) {
  LossCase data = makeCase(DataKind::random, 40, 16, 150, element);
  for (int64_t &label : data.label)
    label = label % 50 + (label % 2 ? 0 : 100); // none of the second rank's
  check(device, data, callOf(element), {{50, 50, 50}});
}

TEST_P(Sharded, AllRowsIgnored) {
  const LossCase data = makeCase(DataKind::random, 20, 16, 90, element, IgnorePattern::all);
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    LossCall call = callOf(element);
    call.reduction = reduction;
    check(device, data, call, {{30, 60}});
  }
}

TEST_P(Sharded, NoRows) {
  const LossCase data = makeCase(DataKind::random, 0, 16, 90, element);
  check(device, data, callOf(element), {{30, 60}});
}

TEST_P(Sharded, LossAlone) {
  const LossCase data = makeCase(DataKind::largeLoss, 45, 16, 150, element, IgnorePattern::some);
  LossCall call = callOf(element);
  call.wantsDHidden = call.wantsDWeight = call.wantsDBias = false;
  check(device, data, call, {{50, 70, 30}, 16});
}

TEST_P(Sharded, EitherGradientAlone) {
  const LossCase data = makeCase(DataKind::random, 45, 16, 150, element, IgnorePattern::some);
  for (const bool ofX : {false, true}) {
    LossCall call = callOf(element);
    call.wantsDHidden = ofX, call.wantsDWeight = !ofX;
    check(device, data, call, {{50, 70, 30}, 16});
  }
}

INSTANTIATE_TEST_SUITE_P(All, Sharded,
                         testing::Combine(testing::ValuesIn(testDevices()), testing::ValuesIn(kElements)),
                         [](const auto &info) {
                           return std::get<0>(info.param) + "_" + elementName(std::get<1>(info.param));
                         });

TEST_P(Sharded, RanksPlanAlikeWhicheverGradientsTheyWant) {
  const LossCase data = makeCase(DataKind::random, 200, 16, 150, element);
  for (const std::optional<ElementType> type :
       {std::optional<ElementType>(), std::optional(ElementType::f32)}) {
    std::vector<std::string> schedules;
    for (const auto &[ofX, ofW] : {std::pair(true, true), std::pair(true, false), std::pair(false, true)}) {
      LossCall call = callOf(element);
      call.gradient = type;
      call.wantsDHidden = ofX, call.wantsDWeight = ofW;
      schedules.push_back(runSharded(runtimeFor(device), data, call, {{50, 100}}).schedules[0]);
    }
    EXPECT_EQ(schedules[0], schedules[1]);
    EXPECT_EQ(schedules[0], schedules[2]);
  }
}

// ---- Options -------------------------------------------------------------------------------------------

using OptionsCase = std::tuple<std::string, ElementType, std::vector<LossFeature>>;
class ShardedOptions : public testing::TestWithParam<OptionsCase> {};

TEST_P(ShardedOptions, MatchReference) {
  const auto &[device, element, features] = GetParam();
  LossCase data = makeCase(DataKind::random, 45, 24, 150, element, IgnorePattern::some);
  for (const bool apart : {false, true})
    for (const Reduction reduction : {Reduction::mean, Reduction::none}) {
      LossCase own = data;
      LossCall call = callOf(element);
      call.reduction = reduction;
      call.apart = apart;
      call.gradOutput = {-1.25};
      if (reduction == Reduction::none) call.gradOutput.assign(data.rows, 0.375);
      for (const LossFeature &feature : features)
        feature.apply(own, call);
      check(device, own, call, {{50, 70, 30}, reduction == Reduction::none ? 16 : 0});
    }
}

std::vector<OptionsCase> optionsCases() {
  std::vector<OptionsCase> cases;
  for (const std::string &device : testDevices())
    for (const ElementType element : kElements)
      for (const auto &features : lossFeatureSets(false))
        if (element == ElementType::f32 || features.size() == 1) cases.push_back({device, element, features});
  return cases;
}

std::string nameOf(const testing::TestParamInfo<OptionsCase> &info) {
  const auto &[device, element, features] = info.param;
  return device + "_" + elementName(element) + "_" + featureNames(features);
}

INSTANTIATE_TEST_SUITE_P(All, ShardedOptions, testing::ValuesIn(optionsCases()), nameOf);

// ---- Mistakes ------------------------------------------------------------------------------------------

class ShardedMistakes : public testing::TestWithParam<std::string> {};

TEST_P(ShardedMistakes, LabelsOfNoRankAreErrorsOnEveryRank) {
  LossCase data = makeCase(DataKind::random, 20, 16, 90, ElementType::f32);
  for (const int64_t wrong : {int64_t(90), int64_t(-1)}) {
    data.label[7] = wrong;
    const ShardedResult result = runSharded(runtimeFor(GetParam()), data, {}, {{30, 60}});
    EXPECT_EQ(result.whole.status.message(), labelError(7, wrong, 90, kDefaultIgnoreIndex).message());
  }
}

TEST_P(ShardedMistakes, ShardsLieAmongAllClasses) {
  Runtime &runtime = runtimeFor(GetParam());
  const DeviceTensor x = DeviceTensor::matrix(runtime.device(), ElementType::f32, 4, 8);
  const DeviceTensor w = DeviceTensor::matrix(runtime.device(), ElementType::f32, 10, 8);
  const DeviceTensor label = DeviceTensor::vector(runtime.device(), ElementType::i64, 4);
  const DeviceTensor loss = DeviceTensor::vector(runtime.device(), ElementType::f32, 1);
  LinearCrossEntropyTensors t;
  t.hidden = x, t.weight = w, t.label = label, t.loss = loss;
  const auto messageOf = [&](const VocabularyShard &shard, Variant variant = Variant::automatic) {
    LinearCrossEntropyOptions options;
    options.variant = variant;
    return PreparedShardedLinearCrossEntropy::prepare(runtime, t, options, shard).status().message();
  };
  EXPECT_EQ(messageOf({30, 20, 1, 2, 20}), "");
  EXPECT_THAT(messageOf({0, 0, 0, 1, 10}), HasSubstr("number of all ranks' classes"));
  EXPECT_THAT(messageOf({30, 21, 1, 2, 20}), HasSubstr("among all classes"));
  EXPECT_THAT(messageOf({30, 20, 2, 2, 20}), HasSubstr("rank"));
  EXPECT_THAT(messageOf({30, 20, 1, 2, 9}), HasSubstr("widest"));
  EXPECT_THAT(messageOf({30, 20, 1, 2, 20}, Variant::recompute), HasSubstr("recompute"));
}

INSTANTIATE_TEST_SUITE_P(All, ShardedMistakes, testing::ValuesIn(testDevices()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace tilewright::test
