// How a problem of linear cross entropy is cut up.

#include "tests/kernels/planned_problems.h"

namespace tilewright::lce {
namespace {

TEST(Plan, KeepsTheLimit) {
  const Request p = problem(1024, 768, 32768);
  const int64_t limit = 64 << 20;
  const Config config = planned(p, limit);
  EXPECT_EQ(config.variant, Variant::chunked);
  EXPECT_LE(bytesOf(p, config), limit);
  EXPECT_EQ(config.chunks(p), 3);
}

TEST(Plan, AChunkTakesMemoryForTheRowsThatThereAre) {
  const Request p = problem(256, 2048, 50257); // chunks have 192 or 384 rows, E of 256 takes 49 MiB
  const Config config = planned(p);
  EXPECT_EQ(config.chunks(p), 1);
  EXPECT_LE(bytesOf(p, config), 64 << 20);
}

TEST(Plan, ChoosesLossOnlyWithoutGradients) {
  Request p = problem(1024, 768, 32768);
  p.dHidden = p.dWeight = std::nullopt;
  EXPECT_EQ(planned(p).variant, Variant::lossOnly);
  EXPECT_LT(bytesOf(p, planned(p)), 8 << 20);
}

TEST(Plan, WholeIsOneChunk) {
  const Request p = problem(5000, 64, 9000, ElementType::bf16);
  const Config config = planned(p, 0, 2, Variant::whole);
  EXPECT_EQ(config.chunks(p), 1);
  EXPECT_FALSE(tensorsOf(chunked(p), config).has(tensor::partial)) << "one chunk accumulates nothing";
}

TEST(Plan, RecomputesInSlicesOfTheClasses) {
  const Scheme p = recomputed(problem(1024, 768, 32768, ElementType::bf16));
  const Config roomy = planned(p, 0, 2, Variant::recompute),
               tight = planned(p, 16 << 20, 2, Variant::recompute);
  EXPECT_EQ(roomy.slices(p).size(), 2) << "u has a row for each class of a slice";
  EXPECT_GE(tight.slices(p).size(), 8);
  EXPECT_GE(tight.chunks(p), 4);
  EXPECT_LE(bytesOf(p, tight), 16 << 20);
  EXPECT_EQ(tight.slices(p).back().first + tight.slices(p).back().count, p.classes);
}

TEST(Plan, RecomputesWhereNothingElseFits) {
  const Request p = problem(1024, 768, 32768, ElementType::bf16); // dW of several chunks needs 96 MiB
  EXPECT_EQ(planned(p, 140 << 20).variant, Variant::chunked);
  EXPECT_EQ(planned(p, 20 << 20).variant, Variant::recompute);
}

// A batch of another length may change how many chunks there are, but compiles nothing anew.
TEST(Plan, BlocksAreTheSameThroughoutABucket) {
  for (int64_t rows : {385, 400, 511, 575, 576})
    EXPECT_EQ(planned(problem(rows, 768, 8192)).str(), planned(problem(576, 768, 8192)).str()) << rows;
  for (int64_t rows : {33, 64})
    EXPECT_EQ(planned(problem(rows, 768, 8192)).str(), planned(problem(50, 768, 8192)).str()) << rows;
}

// The forward block's columns decide in which order S is summed.
TEST(Plan, ForwardColumnsDoNotDependOnTheMachine) {
  for (int64_t classes : {1, 17, 300, 5000, 128256})
    for (int units : {1, 2, 8, 64, 192})
      EXPECT_EQ(planned(problem(300, 64, classes), 0, units).forward.block.columns,
                planned(problem(300, 64, classes), 0, 2).forward.block.columns);
}

TEST(Plan, BlocksAreWholeRegisterTiles) {
  for (int64_t rows : {1, 7, 100, 1000})
    for (int64_t hidden : {1, 33, 768})
      for (int units : {1, 2, 64}) {
        const Config config = planned(problem(rows, hidden, 1009), 0, units);
        for (const Block &block : {config.forward.block, config.dHidden.block, config.dWeight.block}) {
          EXPECT_TRUE(block.rows > 0 && block.rows % 8 == 0) << config.str();
          EXPECT_TRUE(block.columns > 0 && block.columns % 32 == 0) << config.str();
        }
      }
}

// Accumulators and packed panels; 0 is the lowering's own step of 256.
TEST(Plan, BlocksOfACpuFitItsSecondLevelCache) {
  for (int64_t cache : {256 << 10, 512 << 10, 1 << 20, 2 << 20})
    for (int64_t rows : {64, 1000, 4096}) {
      DeviceInfo info = machine(2);
      info.cacheBytes = cache;
      const StatusOr<Config> config = plan(problem(rows, 768, 32768), Variant::automatic, 0, info);
      ASSERT_TRUE(config.ok()) << config.status().message();
      for (const Product &product : {config->forward, config->dHidden, config->dWeight}) {
        const int64_t step = product.contractionStep ? product.contractionStep : 256;
        const Block &block = product.block;
        EXPECT_LE(4 * (block.rows * block.columns + step * (block.rows + block.columns)), cache)
            << product.str();
      }
    }
}

TEST(Plan, TwoHundredAndFiftySixRowsAreOneBlockOfACpu) {
  DeviceInfo info = machine(2);
  info.cacheBytes = 512 << 10;
  const StatusOr<Config> config = plan(problem(256, 1024, 32768), Variant::automatic, 0, info);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->forward.block.str(), "256x256");
  EXPECT_EQ(config->dHidden.block.str(), "256x256");
}

TEST(Plan, KeepsManyThreadsBusy) {
  const Request p = problem(1024, 768, 32768);
  const Config config = planned(p, 64 << 20, 64);
  const auto blocks = [](int64_t rows, int64_t columns, const Block &block) {
    return ((rows + block.rows - 1) / block.rows) * ((columns + block.columns - 1) / block.columns);
  };
  EXPECT_GE(config.tail.parts * blocks(config.chunkRows, p.hidden, config.dHidden.block), 48);
}

// How dX is cut into parts decides its bits.
TEST(Plan, PartsOfTheClassesDoNotDependOnThreads) {
  for (const ElementType element : {ElementType::f32, ElementType::bf16})
    for (const int64_t rows : {9, 256, 1000, 20000})
      for (const int64_t limit : {int64_t(0), int64_t(64) << 20}) {
        const Request p = problem(rows, 768, 32768, element);
        const Config one = planned(p, limit, 1);
        for (const int units : {2, 3, 16, 96}) {
          const Config many = planned(p, limit, units);
          EXPECT_EQ(many.chunkRows, one.chunkRows) << units;
          EXPECT_EQ(many.tail.parts, one.tail.parts) << units;
          EXPECT_EQ(bytesOf(p, many), bytesOf(p, one)) << units;
        }
      }
}

TEST(Plan, PartsOfTheClassesKeepThreadsBusyWithFewRows) {
  const Request p = problem(512, 768, 32768);
  const Config config = planned(p, 0, 16);
  EXPECT_EQ(config.tail.begin, 0);
  EXPECT_GE(config.tail.parts * config.chunkRows * p.hidden, 2 * 16 * 256 * 256) << config.str();
  EXPECT_GE(std::min(config.dHidden.block.rows, config.dHidden.block.columns), 128) << config.str();
  EXPECT_EQ(planned(problem(4096, 4096, 4096), 0, 16).tail.parts, 1) << "there are blocks enough";
}

TEST(Plan, PartsOfDxTakeWhatALimitLeaves) {
  const Request p = problem(1024, 768, 32768);
  const int64_t limit = int64_t(64) << 20;
  const Config free = planned(p), limited = planned(p, limit);
  ASSERT_GT(bytesOf(p, free), limit);
  EXPECT_LE(bytesOf(p, limited), limit);
  EXPECT_EQ(limited.chunkRows, free.chunkRows);
  EXPECT_GE(limited.tail.parts, free.tail.parts * 3 / 4) << limited.str();
}

// N = 0 with a borrowed dW, or with none, once never returned.
TEST(Plan, RecomputesNoRows) {
  for (const bool weight : {false, true}) {
    Request p = problem(0, 24, 1000, ElementType::bf16);
    if (!weight) p.dWeight = std::nullopt;
    p.terms.bias = p.dBias = ElementType::bf16;
    p.borrowedBytes = weight ? 24 * 1000 * 2 - 255 : 0;
    EXPECT_TRUE(plan(p, Variant::recompute, 0, machine(2)).ok());
  }
}

// Sizes near their limits are refused, or saturate: nothing overflows.
TEST(Plan, HugeProblemsDoNotOverflow) {
  constexpr int64_t most = (int64_t(1) << 31) - (int64_t(1) << 16);
  for (const Variant variant : {Variant::automatic, Variant::whole, Variant::recompute}) {
    const Request p = problem(most, int64_t(1) << 20, most);
    for (const int64_t limit : {int64_t(0), int64_t(1) << 40}) {
      const StatusOr<Config> config = plan(p, variant, limit, machine(2));
      if (!config.ok()) continue;
      EXPECT_GT(bytesOf(p, *config), 0);
      EXPECT_TRUE(limit == 0 || bytesOf(p, *config) <= limit);
    }
  }
}

} // namespace
} // namespace tilewright::lce
