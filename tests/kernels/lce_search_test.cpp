// What may be tuned about linear cross entropy: plain data, no device.

#include "kernels/lce/search.h"

#include "kernels/lce/tensors.h"
#include "kernels/lce/tiling.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tilewright::lce {
namespace {

using ::testing::HasSubstr;

Request problem(int64_t rows = 1024, int64_t hidden = 768, int64_t classes = 32768) {
  Request p;
  p.rows = rows, p.hidden = hidden, p.classes = classes;
  p.dHidden = p.dWeight = ElementType::f32;
  return p;
}

DeviceInfo machine() {
  DeviceInfo info;
  info.fingerprint = "machine";
  info.memoryBytes = int64_t(8) << 30;
  info.units = 2;
  info.cacheBytes = 1 << 20;
  return info;
}

Config planned(const Request &p) { return *plan(p, Variant::automatic, 0, machine()); }

Configuration sample() { return configurationOf(planned(problem()), problem()); }

TEST(LceSearch, ConfigurationsReadBack) {
  for (const Request &p : {problem(), problem(1, 1, 1), problem(5000, 64, 100)}) {
    const Configuration configuration = configurationOf(planned(p), p);
    const auto config = configOf(configuration, p, machine());
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config->str(), planned(p).str());
    EXPECT_EQ(configurationOf(*config, p), configuration);
  }
}

TEST(LceSearch, ConfigurationsFromElsewhereAreChecked) {
  struct Case {
    const char *name;
    ParameterValue value;
  };
  for (const Case &c :
       {Case{"variant", "loss_only"}, Case{"variant", "auto"}, Case{"variant", "fastest"},
        Case{"variant", int64_t(1)}, Case{"chunk_rows", int64_t(0)}, Case{"chunk_rows", int64_t(1) << 60},
        Case{"chunk_rows", int64_t(100)}, Case{"forward_rows", int64_t(1) << 40},
        Case{"forward_rows", int64_t(12)}, Case{"forward_rows", "192"}, Case{"dx_columns", int64_t(48)},
        Case{"dx_columns", int64_t(0)}, Case{"dw_step", int64_t(8192)}}) {
    Configuration configuration = sample();
    configuration.set(c.name, c.value);
    const auto config = configOf(configuration, problem(), machine());
    ASSERT_FALSE(config.ok()) << configuration.str();
    EXPECT_EQ(config.status().kind(), StatusKind::user);
  }
  EXPECT_FALSE(configOf({}, problem(), machine()).ok());
}

TEST(LceSearch, EverythingWorthTryingCanBeRead) {
  const Request p = problem();
  const SearchSpace space = searchSpace(p, planned(p), machine());
  const CostModel model = costModel(p, planned(p), machine());
  std::vector<ProductStep> steps = productSteps(p, planned(p));
  ASSERT_EQ(steps.size(), 3u);
  steps.push_back({"chunk", {}, chunkParameters()});
  for (const ProductStep &step : steps) {
    const auto selection = model.select(space.combinations(sample(), step.parameters));
    EXPECT_GE(selection.kept.size(), step.name == "chunk" ? 3u : 8u) << step.name;
    for (const Configuration &configuration : selection.kept)
      EXPECT_TRUE(configOf(configuration, p, machine()).ok()) << configuration.str();
  }
}

TEST(LceSearch, PrunesForAReason) {
  const Request p = problem();
  const CostModel model = costModel(p, planned(p), machine());
  EXPECT_EQ(model.exclusion(sample()), nullptr);
  const auto reason = [&](const char *name, ParameterValue value, const char *other = nullptr,
                          int64_t second = 0) -> std::string {
    Configuration configuration = sample();
    configuration.set(name, std::move(value));
    if (other) configuration.set(other, second);
    const std::string *found = model.exclusion(configuration);
    return found ? *found : "";
  };
  EXPECT_THAT(reason("forward_columns", int64_t(1024)), HasSubstr("cache"));
  EXPECT_THAT(reason("dw_rows", int64_t(64), "dw_columns", 640), HasSubstr("idle"));
  EXPECT_THAT(reason("dw_rows", int64_t(8)), HasSubstr("panels"));
  EXPECT_THAT(reason("variant", "whole"), HasSubstr("single chunk"));
  EXPECT_EQ(reason("forward_rows", int64_t(128)), "");
}

TEST(LceSearch, BlocksOfAGpuFitItsRegisters) {
  DeviceInfo gpu = machine();
  gpu.sharedBytes = 200 << 10;
  const Request p = problem();
  const Config heuristic = *plan(p, Variant::automatic, 0, gpu);
  EXPECT_EQ(heuristic.forward.block.str(), "128x128");
  const SearchSpace space = searchSpace(p, heuristic, gpu);
  Configuration configuration = configurationOf(heuristic, p);
  const CostModel model = costModel(p, heuristic, gpu);
  EXPECT_EQ(model.exclusion(configuration), nullptr);
  configuration.set("forward_rows", int64_t(256));
  configuration.set("forward_columns", int64_t(256));
  ASSERT_NE(model.exclusion(configuration), nullptr);
  EXPECT_THAT(*model.exclusion(configuration), HasSubstr("registers"));
}

class HopperSearch : public ::testing::Test {
protected:
  HopperSearch() {
    device.fingerprint = "H200";
    device.memoryBytes = int64_t(150754820096);
    device.units = 132;
    device.sharedBytes = 232448;
    device.cacheBytes = 0;
    device.warpgroups = true;
    p = problem(16384, 4096, 128256);
    p.element = ElementType::bf16;
    p.dHidden = p.dWeight = ElementType::bf16;
    p.aligned = true;
    heuristic = *plan(p, Variant::automatic, 0, device);
  }

  /// Why a forward product would not be tried; empty when it would.
  std::string exclusion(int64_t rows, int64_t columns, const char *roles, int64_t stages) const {
    Configuration configuration = configurationOf(heuristic, p);
    configuration.set("forward_rows", rows);
    configuration.set("forward_columns", columns);
    configuration.set("forward_roles", roles);
    configuration.set("forward_stages", stages);
    EXPECT_TRUE(configOf(configuration, p, device).ok()) << configuration.str();
    const CostModel model = costModel(p, heuristic, device);
    const std::string *reason = model.exclusion(configuration);
    return reason ? *reason : "";
  }

  DeviceInfo device;
  Request p;
  Config heuristic;
};

TEST_F(HopperSearch, TriesWhatWasFoundToBeFast) {
  const SearchSpace space = searchSpace(p, heuristic, device);
  const CostModel model = costModel(p, heuristic, device);
  const auto triedIn = [&](const ProductStep &step) {
    std::set<std::string> tried;
    const Configuration first = configurationOf(heuristic, p);
    for (const Configuration &c : model.select(space.combinations(first, step.parameters)).kept)
      tried.insert((*configOf(c, p, device))[step.kind].str());
    return tried;
  };
  const std::vector<ProductStep> steps = productSteps(p, heuristic);
  ASSERT_EQ(steps.size(), 6u);
  for (std::size_t i = 0; i < steps.size(); i += 2) {
    const std::set<std::string> tiles = triedIn(steps[i]), orders = triedIn(steps[i + 1]);
    const Product &product = heuristic[steps[i].kind];
    const std::string order = ", 4 stages, raster " + std::to_string(product.rasterRows) + ", cluster " +
                              std::to_string(product.clusterCtas);
    for (const char *fast : {"128x256/0 cooperative", "128x192/0 pingPong", "256x128/0 cooperative"})
      EXPECT_TRUE(tiles.count(fast + order)) << steps[i].name << fast;
    EXPECT_LE(tiles.size(), 16u);
    EXPECT_TRUE(orders.count(heuristic[steps[i].kind].str())) << steps[i + 1].name;
    const std::set<int> rasters{product.rasterRows, 1, 2, 4, 6, 8, 11, 12, 16};
    EXPECT_EQ(orders.size(), 2 * rasters.size()) << "with and without clusters";
  }
}

TEST_F(HopperSearch, PrunesWhatCannotBeFast) {
  EXPECT_EQ(exclusion(128, 256, "cooperative", 4), "");
  EXPECT_EQ(exclusion(128, 128, "pingPong", 5), "");
  EXPECT_THAT(exclusion(256, 256, "cooperative", 3), HasSubstr("all of a multiprocessor's registers"));
  EXPECT_THAT(exclusion(128, 256, "pingPong", 4), HasSubstr("all of a multiprocessor's registers"));
  EXPECT_THAT(exclusion(192, 192, "cooperative", 4), HasSubstr("cannot halve"));
  EXPECT_THAT(exclusion(192, 256, "cooperative", 3), HasSubstr("from one warpgroup to the other"));
  EXPECT_THAT(exclusion(128, 128, "cooperative", 4), HasSubstr("wait for operands"));
  EXPECT_THAT(exclusion(128, 256, "cooperative", 5), HasSubstr("exceed a program's shared memory"));
  EXPECT_THAT(exclusion(128, 256, "cooperative", 3), HasSubstr("one more stage"));
}

// 88 tiles would leave a third of the multiprocessors idle, parts of them do not.
TEST_F(HopperSearch, PartsOfTheClassesKeepFewTilesBusy) {
  Request few = p;
  few.rows = 1024;
  const Config planned = *plan(few, Variant::automatic, 0, device);
  Configuration configuration = configurationOf(planned, few);
  configuration.set("dx_rows", int64_t(256));
  configuration.set("dx_columns", int64_t(192));
  const auto config = configOf(configuration, few, device);
  ASSERT_TRUE(config.ok());
  EXPECT_GT(config->tail.parts, 1);
  const CostModel model = costModel(few, planned, device);
  const std::string *reason = model.exclusion(configuration);
  EXPECT_EQ(reason, nullptr) << *reason;
}

// Two warpgroups with a tile each have no registers left for more than the plain loss's dW.
TEST_F(HopperSearch, OptionsKeepWhatWasTunedForThePlainLossWhereItFits) {
  TuningRecord record;
  record.winners.push_back({configurationOf(heuristic, p), 1, 5, 0});
  const auto weightOf = [&](const Request &problem) {
    return tunedConfig(record, problem, Variant::automatic, 0, device)->dWeight.str();
  };
  Request capped = p, smoothed = p;
  capped.terms.softcap = true;
  smoothed.terms.labelSmoothing = true;
  EXPECT_EQ(weightOf(p), heuristic.dWeight.str());
  EXPECT_EQ(weightOf(capped), heuristic.dWeight.str());
  EXPECT_THAT(weightOf(smoothed), HasSubstr("cooperative"));
  EXPECT_EQ(weightOf(smoothed), plan(smoothed, Variant::automatic, 0, device)->dWeight.str());
}

TEST_F(HopperSearch, MatricesThatAreNotAlignedHaveNoRoles) {
  const Configuration aligned = configurationOf(heuristic, p);
  Request odd = p;
  odd.aligned = false;
  EXPECT_NE(tuningKey(odd, device).str(), tuningKey(p, device).str());
  const auto config = configOf(aligned, odd, device);
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.status().message(), HasSubstr("aligned operands of 16 bits"));
  const Config portable = *plan(odd, Variant::automatic, 0, device);
  EXPECT_FALSE(configurationOf(portable, odd).has("forward_roles"));
  EXPECT_EQ(searchSpace(odd, portable, device)
                .combinations(configurationOf(portable, odd), {"forward_roles"})
                .size(),
            1u);
}

TEST_F(HopperSearch, PortableProductsAreWalkedInSeveralOrders) {
  Request odd = p;
  odd.aligned = false;
  const Config portable = *plan(odd, Variant::automatic, 0, device);
  const SearchSpace space = searchSpace(odd, portable, device);
  const std::vector<ProductStep> steps = productSteps(odd, portable);
  ASSERT_EQ(steps.size(), 6u);
  for (std::size_t i = 1; i < steps.size(); i += 2) {
    std::set<int> rasters;
    for (const Configuration &c : space.combinations(configurationOf(portable, odd), steps[i].parameters))
      rasters.insert((*configOf(c, odd, device))[steps[i].kind].rasterRows);
    EXPECT_EQ(rasters, (std::set<int>{portable[steps[i].kind].rasterRows, 8, 16})) << steps[i].name;
  }
}

TEST(LceSearch, KeysHoldWhatChangesTheTime) {
  const std::string key = tuningKey(problem(), machine()).str();
  EXPECT_EQ(tuningKey(problem(513), machine()).str(), key) << "rows share a bucket";
  EXPECT_NE(tuningKey(problem(512), machine()).str(), key);
  EXPECT_NE(tuningKey(problem(1024, 769), machine()).str(), key);
  EXPECT_NE(tuningKey(problem(1024, 768, 32767), machine()).str(), key);
  Request other = problem();
  other.dHidden = std::nullopt;
  EXPECT_NE(tuningKey(other, machine()).str(), key);
  other = problem();
  other.reduction = Reduction::none;
  EXPECT_NE(tuningKey(other, machine()).str(), key);
  DeviceInfo elsewhere = machine();
  elsewhere.fingerprint = "another";
  EXPECT_NE(tuningKey(problem(), elsewhere).str(), key);
}

TEST(LceSearch, TheLimitChoosesTheWinner) {
  const Request p = problem();
  TuningRecord record;
  const auto add = [&](int64_t chunk, double milliseconds) {
    Configuration configuration = sample();
    configuration.set("variant", chunk >= p.rows ? "whole" : "chunked");
    configuration.set("chunk_rows", chunk);
    record.winners.push_back({configuration, milliseconds, 5, 0});
    return workspaceBytes(schemeFor(p, Variant::chunked), *configOf(configuration, p, machine()));
  };
  const int64_t whole = add(1152, 100), small = add(192, 120);
  const auto rows = [&](int64_t limit, Variant variant = Variant::automatic) {
    const auto config = tunedConfig(record, p, variant, limit, machine());
    return config ? config->chunkRows : 0;
  };
  EXPECT_EQ(rows(0), 1152);
  EXPECT_EQ(rows(whole), 1152);
  EXPECT_EQ(rows(whole - 1), 192);
  EXPECT_EQ(rows(small - 1), 0);
  EXPECT_EQ(rows(whole - 1, Variant::whole), 0);
  EXPECT_EQ(tunedConfig(record, p, Variant::chunked, 0, machine())->variant, Variant::chunked);
}

} // namespace
} // namespace tilewright::lce
