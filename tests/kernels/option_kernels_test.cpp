// Which kernels an option changes, and that all of them assemble for GPUs: seen on a fake one that compiles
// and loads as a real one does, and computes nothing.

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_device.h"
#include "tests/support/loss_features.h"
#include "tests/support/loss_run.h"
#include "tests/support/ptx_assembler.h"

namespace tilewright::test {
namespace {

using Names = std::set<std::string>;

/// The code that a call loads, and which kernel it is.
using Kernels = std::map<std::string, std::string>;

Kernels kernelsOf(const LossCase &data, const LossCall &call) {
  DeviceInfo info;
  info.name = info.fingerprint = "a fake GPU";
  info.memoryBytes = int64_t(40) << 30;
  info.units = 108;
  info.sharedBytes = 163 << 10;
  auto device = std::make_unique<FakeDevice>(info, *parseTarget("sm_80"));
  Kernels kernels;
  std::mutex mutex;
  device->onLoad = [&](const Artifact &artifact) {
    std::lock_guard<std::mutex> lock(mutex);
    kernels.emplace(artifact.assembly, artifact.kernel);
  };
  Environment environment;
  environment.autotune = AutotuneMode::off;
  Runtime runtime(std::move(device), environment);
  const LossResult result = runLinearCrossEntropy(runtime, data, call);
  EXPECT_TRUE(result.status.ok()) << result.status.message();
  return kernels;
}

LossCase smallCase(ElementType element) { return makeCase(DataKind::random, 300, 128, 1000, element); }

/// Names of kernels whose code is not among the other's.
Names changed(const Kernels &kernels, const Kernels &from) {
  Names names;
  for (const auto &[code, name] : kernels)
    if (!from.count(code)) names.insert(name);
  return names;
}

// A product's kernel is the plain one wherever an option has no part in it, so that what is not asked for
// costs nothing.
TEST(OptionKernels, OfProductsChangeOnlyWhereTheyMust) {
  const std::map<std::string, Names> expected = {
      {"bias", {"lce_forward"}},
      {"label_smoothing", {"lce_forward", "lce_dx", "lce_dw"}},
      {"class_weight", {}},
      {"z_loss", {}},
      {"logit_scale", {"lce_forward"}},
      {"softcap", {"lce_forward"}},
      {"prob", {}},
      {"lmcl", {"lce_forward", "lce_dx", "lce_dw"}}, // dW is normalised later, and fp32 until then
      {"grad_lse", {}},
      {"grad_entropy", {"lce_forward"}},
      {"observed", {"lce_forward"}},
      {"accumulate", {"lce_dw"}},
  };
  const Names products = {"lce_forward", "lce_dx", "lce_dw"};
  const Kernels plain = kernelsOf(smallCase(ElementType::bf16), {});
  for (const LossFeature &feature : lossFeatures()) {
    LossCase data = smallCase(ElementType::bf16);
    LossCall call;
    feature.apply(data, call);
    Names names;
    for (const std::string &name : changed(kernelsOf(data, call), plain))
      if (products.count(name)) names.insert(name);
    ASSERT_TRUE(expected.count(feature.name)) << feature.name;
    EXPECT_EQ(names, expected.at(feature.name)) << feature.name;
  }
}

// Rows of losses and lse are there anyway.
TEST(OptionKernels, OfThePlainLossServeEveryReduction) {
  const LossCase data = smallCase(ElementType::bf16);
  LossCall mean, none;
  mean.wantsLse = false;
  none.reduction = Reduction::none;
  // g has no 1 / N; few rows' one-hot sums have no losses to reduce beside them.
  EXPECT_EQ(changed(kernelsOf(data, none), kernelsOf(data, mean)), Names({"lce_combine", "lce_one_hot_sum"}));
}

void expectAssembled(const Kernels &kernels) {
  const std::string assembler = findPtxAssembler();
  if (assembler.empty()) GTEST_SKIP() << "no ptxas on PATH or below CUDA_HOME";
  static std::set<std::string> seen;
  for (const auto &[code, name] : kernels) {
    if (!seen.insert(code).second) continue; // another option's call has it, too
    EXPECT_EQ(faultsOfAssembled(assembler, code, "sm_80"), "") << name;
  }
}

class OptionAssembled : public testing::TestWithParam<std::tuple<ElementType, LossFeature>> {};

TEST_P(OptionAssembled, WithoutSpills) {
  const auto &[element, feature] = GetParam();
  LossCase data = smallCase(element);
  LossCall call;
  feature.apply(data, call);
  expectAssembled(kernelsOf(data, call));
}

/// fp32 has products of its own, of which few options ask for more than any product does.
std::vector<std::tuple<ElementType, LossFeature>> assembledOptions() {
  std::vector<std::tuple<ElementType, LossFeature>> options;
  for (const LossFeature &feature : lossFeatures()) {
    options.push_back({ElementType::bf16, feature});
    for (const char *name : {"label_smoothing", "lmcl", "observed", "accumulate"})
      if (feature.name == name) options.push_back({ElementType::f32, feature});
  }
  return options;
}

INSTANTIATE_TEST_SUITE_P(EachOption, OptionAssembled, testing::ValuesIn(assembledOptions()),
                         [](const auto &info) {
                           return std::string(elementName(std::get<0>(info.param))) + "_" +
                                  std::get<1>(info.param).name;
                         });

TEST(OptionKernels, OfOtherNumbersAndVariantsAssemble) {
  LossCase tf32 = smallCase(ElementType::f32);
  tf32.tf32 = true;
  expectAssembled(kernelsOf(tf32, {}));
  expectAssembled(kernelsOf(smallCase(ElementType::f16), {}));
  LossCall chunks;
  chunks.workspaceLimit = 2 << 20;
  expectAssembled(kernelsOf(makeCase(DataKind::random, 2000, 128, 1000, ElementType::bf16), chunks));
  LossCall call;
  call.variant = Variant::recompute;
  call.workspaceLimit = 1 << 20; // several slices
  expectAssembled(kernelsOf(smallCase(ElementType::bf16), call));
}

} // namespace
} // namespace tilewright::test
