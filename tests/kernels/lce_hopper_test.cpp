// What becomes of linear cross entropy on a GPU with wgmma and TMA, as far as one can see without: a fake one
// that compiles and launches as one does, and computes nothing.

#include <map>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/lce/plan.h"
#include "kernels/lce_call.h"
#include "tests/support/fake_device.h"
#include "tests/support/loss_features.h"
#include "tests/support/loss_run.h"
#include "tests/support/ptx_assembler.h"

namespace tilewright {
namespace {

using test::h200;
using test::LossCall;
using test::LossCase;
using ::testing::HasSubstr;

bool isProduct(const std::string &kernel) {
  return kernel == "lce_forward" || kernel == "lce_fix_up_again" || kernel == "lce_dx" ||
         kernel == "lce_dx_parts" || kernel == "lce_dw" || kernel == "lce_sample_tops";
}

class HopperCall : public ::testing::Test {
protected:
  /// Compiles and launches a call; `kernels` are then what was loaded, by name.
  LossReport run(const LossCase &data, const LossCall &call) {
    auto device = std::make_unique<test::FakeDevice>(h200(), *parseTarget("sm_90a"));
    std::mutex mutex;
    device->onLoad = [&](const Artifact &artifact) {
      std::lock_guard<std::mutex> lock(mutex);
      kernels.emplace(artifact.kernel, artifact);
    };
    Environment environment;
    environment.autotune = AutotuneMode::off;
    Runtime runtime(std::move(device), environment);
    const test::LossResult result = runLinearCrossEntropy(runtime, data, call);
    EXPECT_TRUE(result.status.ok()) << result.status.message();
    return result.report;
  }

  /// The same of random bf16 numbers, by a variant, within so much memory.
  LossReport run(int64_t rows, int64_t hidden, int64_t classes, int64_t limit,
                 Variant variant = Variant::automatic) {
    LossCall call;
    call.variant = variant;
    call.workspaceLimit = limit;
    return run(makeCase(test::DataKind::random, rows, hidden, classes, ElementType::bf16), call);
  }

  /// Of both operands at least; other kernels have fewer. Pairs are ranked where E's rows or X's are shared.
  void expectMapsOfProducts() {
    for (const auto &[name, artifact] : kernels) {
      EXPECT_EQ(artifact.tensorMaps.size() >= 2, isProduct(name)) << name;
      EXPECT_EQ(artifact.ranksClusters, artifact.clusterCtas == 2 && name != "lce_dw") << name;
    }
  }
  void expectNoMaps() {
    for (const auto &[name, artifact] : kernels)
      EXPECT_TRUE(artifact.tensorMaps.empty()) << name;
  }

  std::multimap<std::string, Artifact> kernels;
};

LossCase smallCase(int64_t hidden, ElementType element = ElementType::bf16) {
  return makeCase(test::DataKind::random, 300, hidden, 1000, element);
}

TEST_F(HopperCall, CopiesOperandsByTma) {
  const LossReport report = run(1000, 64, 1000, 1 << 20); // three chunks: both kinds of dW
  EXPECT_THAT(report.configuration, HasSubstr("forward 128x128/0 pingPong"));
  EXPECT_EQ(kernels.count("lce_dw"), 2u);
  EXPECT_EQ(kernels.count("lce_round_sums"), 1u);
  expectMapsOfProducts();
  for (const auto &[name, artifact] : kernels)
    EXPECT_EQ(artifact.persistent, isProduct(name)) << name;
}

// Deep chunks: products that store sums, add to them, and round them with their own.
TEST_F(HopperCall, RoundsSumsInTheLastProduct) {
  const LossReport report = run(24576, 64, 1000, 26 << 20);
  EXPECT_THAT(report.configuration, HasSubstr("chunk 8192"));
  EXPECT_EQ(kernels.count("lce_dw"), 3u);
  EXPECT_EQ(kernels.count("lce_round_sums"), 0u);
  expectMapsOfProducts();
}

TEST_F(HopperCall, RecomputesByTma) {
  const LossReport report = run(1000, 64, 3000, 2 << 20, Variant::recompute); // several chunks and slices
  EXPECT_EQ(report.variant, Variant::recompute);
  EXPECT_THAT(report.configuration, HasSubstr("slice 768"));
  for (const char *name : {"lce_dx", "lce_fix_up_again", "lce_dw"})
    EXPECT_EQ(kernels.count(name), 1u) << name;
  expectMapsOfProducts();
}

TEST_F(HopperCall, RecomputesByTmaInBorrowedMemory) {
  const LossReport report = run(300, 256, 6000, 1 << 20, Variant::recompute);
  EXPECT_THAT(report.configuration, HasSubstr("in dw's memory"));
  EXPECT_EQ(kernels.count("lce_keep"), 1u);
  expectMapsOfProducts();
}

TEST_F(HopperCall, AddsUpInPlaceByTma) {
  const LossReport report = run(1000, 64, 3000, 640 << 10, Variant::chunked);
  EXPECT_THAT(report.configuration, HasSubstr("in place"));
  EXPECT_EQ(kernels.count("lce_dw"), 2u);
  EXPECT_EQ(kernels.count("lce_round_sums"), 1u);
  expectMapsOfProducts();
}

TEST_F(HopperCall, ComputesPartsOfTheClassesByTma) {
  const LossReport report = run(makeCase(test::DataKind::random, 300, 64, 12000, ElementType::bf16), {});
  EXPECT_THAT(report.configuration, HasSubstr("from row 0 in 16 parts"));
  EXPECT_EQ(kernels.count("lce_dx"), 0u) << "no row is left for it";
  EXPECT_EQ(kernels.count("lce_dx_parts"), 1u);
  EXPECT_EQ(kernels.count("lce_dx_total"), 1u);
  expectMapsOfProducts();
}

// Boxes that the copy engine stores hold rows of a tile, not of its transpose.
TEST_F(HopperCall, SwapsOperandsOfPartsThatAreAllOfDX) {
  for (const int64_t classes : {12000, 25000}) {
    kernels.clear();
    run(makeCase(test::DataKind::random, 300, 64, classes, ElementType::bf16), {});
    EXPECT_EQ(kernels.find("lce_dx_parts")->second.tensorMaps.size(), classes < 24 << 10 ? 3u : 2u);
  }
}

TEST_F(HopperCall, MakesGradientsOfF16ByTma) {
  run(smallCase(64, ElementType::f16), {});
  EXPECT_EQ(kernels.count("lce_rescale"), 1u);
  EXPECT_EQ(kernels.count("lce_scale_rows"), 0u) << "rows are scaled beside dX";
  expectMapsOfProducts();
}

TEST_F(HopperCall, MultipliesAgainForGradientsOfF16WithClassRates) {
  LossCall call;
  call.softcap = 30;
  run(smallCase(64, ElementType::f16), call);
  EXPECT_EQ(kernels.count("lce_rescale"), 0u);
  EXPECT_EQ(kernels.count("lce_fix_up_again"), 1u);
  expectMapsOfProducts();
}

// Twice: as it is, and for rows whose shift was wrong.
TEST_F(HopperCall, ComputesALossAloneByTma) {
  LossCall call;
  call.wantsDHidden = call.wantsDWeight = false;
  const LossReport report = run(makeCase(test::DataKind::random, 1024, 2304, 4000, ElementType::bf16), call);
  EXPECT_THAT(report.configuration, HasSubstr("forward 256x192/0 cooperative"));
  EXPECT_EQ(kernels.count("lce_forward"), 2u);
  EXPECT_EQ(kernels.count("lce_check_shifts"), 0u);
  const std::string assembler = test::findPtxAssembler();
  expectMapsOfProducts();
  for (const auto &[name, artifact] : kernels) {
    if (!isProduct(name) || assembler.empty()) continue;
    EXPECT_EQ(test::faultsOfAssembled(assembler, artifact.assembly, "sm_90a"), "") << name;
  }
}

// wgmma takes TF32 along rows only: dX and dW have transposed operands.
TEST_F(HopperCall, MultipliesTf32ByTma) {
  LossCase data = makeCase(test::DataKind::random, 1024, 2048, 4000, ElementType::f32);
  data.tf32 = true;
  LossCall call;
  EXPECT_THAT(run(data, call).configuration, HasSubstr("forward 128x192/0 pingPong"));
  EXPECT_EQ(kernels.count("lce_transpose"), 1u);
  call.wantsDHidden = call.wantsDWeight = false;
  EXPECT_THAT(run(data, call).configuration, HasSubstr("forward 256x192/0 cooperative"));
  EXPECT_EQ(kernels.count("lce_forward"), 3u); // a loss alone has another for rows whose shift was wrong
  const std::string assembler = test::findPtxAssembler();
  for (const auto &[name, artifact] : kernels) {
    EXPECT_EQ(artifact.tensorMaps.empty(), !isProduct(name)) << name;
    if (artifact.tensorMaps.empty()) continue;
    EXPECT_TRUE(artifact.tensorMaps[0].roundsToTf32 && artifact.tensorMaps[1].roundsToTf32);
    EXPECT_TRUE(artifact.tensorMaps.size() == 2 || !artifact.tensorMaps[2].roundsToTf32) << "what is stored";
    if (assembler.empty()) continue;
    EXPECT_EQ(test::faultsOfAssembled(assembler, artifact.assembly, "sm_90a"), "") << name;
  }
}

// Where W's transpose would leave chunks too small, dX and dW are made of what there is.
TEST_F(HopperCall, TransposesNothingInLittleMemory) {
  LossCase data = makeCase(test::DataKind::random, 1024, 2048, 4000, ElementType::f32);
  data.tf32 = true;
  LossCall call;
  call.workspaceLimit = int64_t(32) << 20;
  run(data, call);
  EXPECT_EQ(kernels.count("lce_transpose"), 0u);
  EXPECT_EQ(kernels.count("lce_dw"), 1u);
}

TEST_F(HopperCall, ExactProductsOfF32TakePortableCode) {
  run(makeCase(test::DataKind::random, 300, 64, 1000, ElementType::f32), {});
  expectNoMaps();
}

TEST_F(HopperCall, RowsOfOddLengthTakePortableCode) {
  const LossReport report = run(smallCase(60), {});
  EXPECT_THAT(report.configuration, HasSubstr("portable code"));
  expectNoMaps();
}

TEST_F(HopperCall, RowsFarApartTakePortableCode) {
  LossCall call;
  call.gap = 3;
  EXPECT_THAT(run(smallCase(64), call).configuration, HasSubstr("portable code"));
  expectNoMaps();
}

class HopperFeature : public HopperCall, public ::testing::WithParamInterface<test::LossFeature> {
protected:
  void expectToAssemble(bool gradients) {
    LossCase data = smallCase(64);
    LossCall call;
    GetParam().apply(data, call);
    if (!gradients) call.wantsDHidden = call.wantsDWeight = call.wantsDBias = false;
    kernels.clear();
    run(data, call);
    for (const auto &[name, artifact] : kernels) {
      if (!isProduct(name)) continue;
      EXPECT_EQ(test::faultsOfAssembled(assembler, artifact.assembly, "sm_90a"), "") << name;
    }
  }

  const std::string assembler = test::findPtxAssembler();
};

TEST_P(HopperFeature, AssemblesWithoutSpills) {
  if (assembler.empty()) GTEST_SKIP() << "no ptxas on PATH or below CUDA_HOME";
  expectToAssemble(true);
  expectToAssemble(false);
}

/// Products of a large problem, in the tiles that the plan gives them. No memory is there for it.
struct LargeCase {
  const char *name;
  int64_t hidden, classes;
  std::optional<ElementType> gradients;
  size_t products = 4; ///< dX's last rows are one of their own, or, with the logits again, all of it
  Variant variant = Variant::automatic;
  int64_t limit = 0;
  ElementType element = ElementType::bf16;
};

class LargeProducts : public ::testing::TestWithParam<LargeCase> {};

TEST_P(LargeProducts, AssembleWithoutSpills) {
  const LargeCase &large = GetParam();
  lce::Request request;
  request.rows = 16384, request.hidden = large.hidden, request.classes = large.classes;
  request.element = large.element, request.label = ElementType::i64;
  request.aligned = request.tensorCores = true;
  request.dHidden = request.dWeight = large.gradients;
  auto device = std::make_unique<test::FakeDevice>(h200(), *parseTarget("sm_90a"));
  std::vector<Artifact> products;
  device->onLoad = [&](const Artifact &artifact) {
    if (isProduct(artifact.kernel)) products.push_back(artifact);
  };
  Runtime runtime(std::move(device), Environment());
  const auto config = plan(request, large.variant, large.limit, h200());
  ASSERT_TRUE(config.ok());
  std::vector<lce::ProductKind> kinds = {lce::ProductKind::forward};
  if (large.gradients) kinds.insert(kinds.end(), {lce::ProductKind::dHidden, lce::ProductKind::dWeight});
  if (config->variant == Variant::recompute) kinds.push_back(lce::ProductKind::again);
  for (const lce::ProductKind kind : kinds)
    ASSERT_TRUE(compileProduct(runtime, request, *config, kind).ok());
  EXPECT_EQ(products.size(), large.products) << config->str();
  // Rows that are picked by number need one way to memory: vectors, or of a transposed tile single numbers.
  const bool isTransposed = config->dHidden.roles == Schedule::WarpRoles::cooperative;
  for (const Artifact &artifact : products)
    EXPECT_THAT(
        artifact.assembly,
        ::testing::Not(HasSubstr(isTransposed && artifact.kernel == "lce_dx" ? "global.v" : "global.u16")))
        << artifact.kernel;
  const std::string assembler = test::findPtxAssembler();
  if (assembler.empty()) GTEST_SKIP() << "no ptxas on PATH or below CUDA_HOME";
  for (const Artifact &artifact : products)
    EXPECT_EQ(test::faultsOfAssembled(assembler, artifact.assembly, "sm_90a"), "") << artifact.kernel;
}

INSTANTIATE_TEST_SUITE_P(
    Gradients, LargeProducts,
    ::testing::Values(
        LargeCase{"bf16", 4096, 128256, ElementType::bf16}, LargeCase{"f32", 4096, 128256, ElementType::f32},
        LargeCase{"none", 4096, 128256, std::nullopt, 1},
        LargeCase{"ofShortRows", 2048, 131072, ElementType::bf16},
        LargeCase{"ofTwoChunks", 896, 151936, ElementType::bf16, 5},            // the second one rounds dW
        LargeCase{"ofTwoChunksOfWideTiles", 576, 196608, ElementType::bf16, 4}, // and all of dX is parts
        LargeCase{"f16", 4096, 128256, ElementType::f16, 4, Variant::automatic, 0, ElementType::f16},
        LargeCase{"f16ForF32", 4096, 128256, ElementType::f32, 4, Variant::automatic, 0, ElementType::f16},
        LargeCase{"recomputed", 4096, 128256, ElementType::bf16, 4, Variant::recompute, int64_t(256) << 20}),
    [](const auto &info) { return info.param.name; });

/// Those whose epilogues have the most to do.
std::vector<test::LossFeature> heavyFeatures() {
  std::vector<test::LossFeature> heavy;
  for (const test::LossFeature &feature : test::lossFeatures())
    for (const char *name : {"label_smoothing", "lmcl", "softcap", "observed", "accumulate"})
      if (feature.name == name) heavy.push_back(feature);
  return heavy;
}

INSTANTIATE_TEST_SUITE_P(EachOption, HopperFeature, ::testing::ValuesIn(heavyFeatures()),
                         [](const auto &info) { return info.param.name; });

} // namespace
} // namespace tilewright
