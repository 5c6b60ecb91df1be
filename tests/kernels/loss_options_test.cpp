// Linear cross entropy's options against float64, alone and in pairs, wherever they may matter.

#include <algorithm>
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

struct Setting {
  LossCase data;
  LossCall call;
};

Setting settingOf(const LossCase &data, LossCall call, const std::vector<LossFeature> &features) {
  Setting setting{data, std::move(call)};
  for (const LossFeature &feature : features)
    feature.apply(setting.data, setting.call);
  return setting;
}

void check(const std::string &device, const Setting &setting) {
  SCOPED_TRACE(setting.call.str());
  const LossResult result = runLinearCrossEntropy(runtimeFor(device), setting.data, setting.call);
  expectClose(result, referenceFor(setting.data, setting.call), setting.data);
}

/// What matrices hold, and how they are multiplied.
enum class Numbers { f32, tf32, bf16, f16 };
const char *numbersName(Numbers numbers) {
  constexpr const char *names[] = {"f32", "tf32", "bf16", "f16"};
  return names[static_cast<int>(numbers)];
}

LossCase makeCaseOf(Numbers numbers, DataKind kind, int64_t rows, int64_t hidden, int64_t classes,
                    IgnorePattern ignored = IgnorePattern::none) {
  constexpr ElementType elements[] = {ElementType::f32, ElementType::f32, ElementType::bf16,
                                      ElementType::f16};
  LossCase data = makeCase(kind, rows, hidden, classes, elements[static_cast<int>(numbers)], ignored);
  data.tf32 = numbers == Numbers::tf32;
  return data;
}

LossCall callOf(Numbers numbers) {
  LossCall call;
  if (numbers == Numbers::f16) call.gradient = ElementType::f32; // f16 cannot hold the smallest ones
  return call;
}

using Case = std::tuple<std::string, Numbers, std::vector<LossFeature>>;

class Options : public testing::TestWithParam<Case> {};

std::vector<double> upstream(Reduction reduction, int64_t rows) {
  if (reduction != Reduction::none) return {-1.25};
  std::vector<double> g;
  for (int64_t i = 0; i < rows; ++i)
    g.push_back(0.25 * (i % 5) - 0.375);
  return g;
}

/// Whether forward and backward are tried apart, too: with no option, with each one, and in f32 with each one
/// and the first behind it that goes with it.
bool isTriedApart(Numbers numbers, const std::vector<LossFeature> &features) {
  if (features.size() < 2) return true;
  const std::vector<LossFeature> &all = lossFeatures();
  const auto first =
      std::find_if(all.begin(), all.end(), [&](const LossFeature &f) { return f.name == features[0].name; });
  const auto other =
      std::find_if(first + 1, all.end(), [&](const LossFeature &f) { return goTogether(*first, f); });
  return numbers == Numbers::f32 && other->name == features[1].name;
}

TEST_P(Options, MatchReference) {
  const auto &[device, numbers, features] = GetParam();
  const LossCase cases[] = {
      makeCaseOf(numbers, DataKind::random, 64, 32, 256),
      makeCaseOf(numbers, DataKind::random, 37, 19, 131, IgnorePattern::some),
      makeCaseOf(numbers, DataKind::peaked, 50, 24, 300, IgnorePattern::firstHalf),
  };
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
    for (const LossCase &data : cases) {
      LossCall call = callOf(numbers);
      call.reduction = reduction;
      call.gradOutput = upstream(reduction, data.rows);
      Setting setting = settingOf(data, call, features);
      check(device, setting);
      setting.call.apart = isTriedApart(numbers, features);
      if (setting.call.apart) check(device, setting);
    }
}

std::string nameOf(const testing::TestParamInfo<Case> &info) {
  const auto &[device, numbers, features] = info.param;
  return device + "_" + numbersName(numbers) + "_" + featureNames(features);
}

INSTANTIATE_TEST_SUITE_P(Sweep, Options,
                         testing::Combine(testing::ValuesIn(testDevices()),
                                          testing::Values(Numbers::f32, Numbers::bf16),
                                          testing::ValuesIn(lossFeatureSets(false))),
                         nameOf);

std::vector<std::vector<LossFeature>> singleFeatures() {
  std::vector<std::vector<LossFeature>> sets;
  for (const LossFeature &feature : lossFeatures())
    sets.push_back({feature});
  return sets;
}

// What is added to a product does not depend on how the product is made: pairs would say nothing new.
INSTANTIATE_TEST_SUITE_P(OtherNumbers, Options,
                         testing::Combine(testing::ValuesIn(testDevices()),
                                          testing::Values(Numbers::tf32, Numbers::f16),
                                          testing::ValuesIn(singleFeatures())),
                         nameOf);

/// Each option in every way to compute the loss.
class EachOption : public Options {};

TEST_P(EachOption, InVariants) {
  const auto &[device, numbers, features] = GetParam();
  // What is different with the backward call: its shifts, and in f16 what becomes of E.
  const bool isTriedApart = numbers == Numbers::f32 || numbers == Numbers::f16;
  const auto checkBoth = [&, &device = device, &features = features](const LossCase &data, LossCall call) {
    check(device, settingOf(data, call, features));
    call.apart = true;
    if (isTriedApart) check(device, settingOf(data, call, features));
  };
  LossCall call = callOf(numbers);
  call.variant = Variant::whole;
  const LossCase data = makeCaseOf(numbers, DataKind::peaked, 500, 48, 700, IgnorePattern::some);
  checkBoth(data, call);
  call.variant = Variant::chunked;
  call.workspaceLimit = 700 << 10; // several chunks
  checkBoth(data, call);
  call.variant = Variant::recompute;
  call.workspaceLimit = 0;
  checkBoth(data, call);
  // Several chunks and slices, the first of which the chunks leave in dW's memory, if that is free.
  const LossCase deep = makeCaseOf(numbers, DataKind::peaked, 250, 200, 1000, IgnorePattern::some);
  Setting recomputed = settingOf(deep, call, features);
  const bool isHalf = elementBytes(data.element) == 2 && !(numbers == Numbers::f16 && recomputed.call.lmcl);
  const int64_t sums =
      recomputed.call.lmcl && isHalf ? 4 * deep.hidden * deep.classes : 0; // to be normalised
  recomputed.call.workspaceLimit = sums + ((isHalf ? 550 : 850) << 10);
  check(device, recomputed);
  const LossResult result = runLinearCrossEntropy(runtimeFor(device), recomputed.data, recomputed.call);
  EXPECT_LT(configured(result, "chunk"), deep.rows);
  EXPECT_LT(configured(result, "slice"), deep.classes);
  EXPECT_EQ(configured(result, "kept") > 0, !recomputed.call.accumulate);
  call = callOf(numbers);
  call.variant = Variant::lossOnly;
  call.wantsDHidden = call.wantsDWeight = call.wantsDBias = false;
  Setting setting = settingOf(data, call, features);
  setting.call.gradLse.clear(), setting.call.gradEntropy.clear();
  check(device, setting);
}

TEST_P(EachOption, WithOneGradient) {
  const auto &[device, numbers, features] = GetParam();
  const LossCase data = makeCaseOf(numbers, DataKind::random, 70, 21, 190, IgnorePattern::some);
  for (int which = 0; which < 3; ++which) {
    LossCall call = callOf(numbers);
    call.gap = 3;
    call.gradient = ElementType::f32;
    call.wantsDHidden = which == 0, call.wantsDWeight = which == 1, call.wantsDBias = which == 2;
    for (const Variant variant : {Variant::automatic, Variant::recompute}) {
      call.variant = variant;
      Setting setting = settingOf(data, call, features);
      if (which == 2 && setting.data.bias.empty()) continue;
      check(device, setting);
      setting.call.apart = numbers == Numbers::f32 || which == 2;
      if (setting.call.apart) check(device, setting);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sweep, EachOption,
                         testing::Combine(testing::ValuesIn(testDevices()),
                                          testing::Values(Numbers::f32, Numbers::tf32, Numbers::bf16,
                                                          Numbers::f16),
                                          testing::ValuesIn(singleFeatures())),
                         nameOf);

/// Where what all classes of a row get alike is added to products, and where E has it.
std::vector<std::vector<LossFeature>> smoothedFeatures() {
  const auto named = [](const std::string &name) {
    const auto &all = lossFeatures();
    return *std::find_if(all.begin(), all.end(), [&](const LossFeature &f) { return f.name == name; });
  };
  const LossFeature smoothing = named("label_smoothing"), weights = named("class_weight");
  return {{smoothing, weights, named("bias")},
          {smoothing, weights, named("softcap")},
          {smoothing, weights, named("grad_entropy")}};
}

INSTANTIATE_TEST_SUITE_P(Smoothed, EachOption,
                         testing::Combine(testing::ValuesIn(testDevices()),
                                          testing::Values(Numbers::f32, Numbers::bf16, Numbers::f16),
                                          testing::ValuesIn(smoothedFeatures())),
                         nameOf);

} // namespace
} // namespace tilewright::test
