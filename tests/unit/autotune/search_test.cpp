// Search spaces, the cost model and measuring, without a device.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autotune/cost_model.h"
#include "autotune/measure.h"
#include "autotune/search_space.h"
#include "tests/support/fake_device.h"

namespace tilewright {
namespace {

using ::testing::ElementsAre;

Configuration pair(int64_t a, int64_t b) { return {{"a", a}, {"b", b}}; }

TEST(NamedValues, KnowTheirKindsAndOrder) {
  NamedValues values{{"variant", "whole"}, {"rows", int64_t(8)}};
  values.set("variant", "chunked");
  EXPECT_EQ(values.str(), "variant=chunked rows=8");
  EXPECT_EQ(values.integer("rows"), 8);
  EXPECT_EQ(values.text("variant"), "chunked");
  EXPECT_EQ(values.integer("variant"), std::nullopt);
  EXPECT_EQ(values.text("rows"), std::nullopt);
  EXPECT_EQ(values.integer("columns"), std::nullopt);
  EXPECT_EQ(values.only({"rows", "columns"}).str(), "rows=8");
}

TEST(SearchSpace, CombinesTheNamedParametersOnly) {
  SearchSpace space;
  space.add("a", {int64_t(1), int64_t(2), int64_t(1)});
  space.add("b", {int64_t(5), int64_t(6)});
  EXPECT_EQ(space.parameters()[0].values.size(), 2u);
  EXPECT_THAT(space.combinations(pair(9, 9), {"b"}), ElementsAre(pair(9, 5), pair(9, 6)));
  EXPECT_THAT(space.combinations(pair(9, 9), {"a", "b"}),
              ElementsAre(pair(1, 5), pair(1, 6), pair(2, 5), pair(2, 6)));
  EXPECT_THAT(space.combinations(pair(9, 9), {"unknown"}), ElementsAre(pair(9, 9)));
}

TEST(CostModel, NamesTheFirstReasonAndOrdersTheRest) {
  CostModel model;
  model.prune("a is odd", [](const Configuration &c) { return *c.integer("a") % 2 != 0; });
  model.prune("b exceeds a", [](const Configuration &c) { return *c.integer("b") > *c.integer("a"); });
  model.setEstimate([](const Configuration &c) { return -static_cast<double>(*c.integer("b")); });
  EXPECT_EQ(model.str(), "a is odd\nb exceeds a\n");
  EXPECT_EQ(*model.exclusion(pair(3, 9)), "a is odd");
  EXPECT_EQ(model.exclusion(pair(4, 4)), nullptr);
  const auto selection = model.select({pair(3, 1), pair(4, 1), pair(4, 2), pair(2, 5), pair(5, 9)});
  EXPECT_THAT(selection.kept, ElementsAre(pair(4, 2), pair(4, 1)));
  EXPECT_EQ(selection.pruned.at("a is odd"), 2);
  EXPECT_EQ(selection.pruned.at("b exceeds a"), 1);
}

TEST(Measure, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(median({5}), 5);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({4, 1, 9, 2}), 3);
}

/// Work that takes the given times, one after the other, and the last one from then on.
TimedWork work(test::FakeDevice &device, std::vector<double> times, std::vector<int> *log = nullptr,
               int name = 0) {
  auto next = std::make_shared<std::size_t>(0);
  return {[=, &device]() -> Status {
            device.clock = device.clock + times[std::min((*next)++, times.size() - 1)];
            if (log) log->push_back(name);
            return {};
          },
          {}};
}

/// Turns of one run.
MeasureOptions singleRuns() {
  MeasureOptions options;
  options.turnMilliseconds = 0;
  return options;
}

TEST(Measure, WarmsUpUntilTheClockSettles) {
  test::FakeDevice device;
  std::vector<int> log;
  ASSERT_TRUE(warmUp(device, nullptr, work(device, {10, 8, 6, 5, 4.95, 4}, &log), singleRuns(), {}).ok());
  EXPECT_EQ(log.size(), 5u);
  log.clear();
  ASSERT_TRUE(warmUp(device, nullptr, work(device, {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}, &log),
                     singleRuns(), {})
                  .ok());
  EXPECT_EQ(log.size(), 10u) << "a clock that never settles must not keep us";
}

TEST(Measure, RacesInTurnAndDropsTheSlow) {
  test::FakeDevice device;
  std::vector<int> log;
  MeasureOptions options = singleRuns();
  options.repetitions = 3;
  const auto results = race(device, nullptr,
                            {work(device, {10, 30, 11}, &log, 0), work(device, {14}, &log, 1),
                             work(device, {10.5}, &log, 2), work(device, {12}, &log, 3)},
                            options, {});
  EXPECT_THAT(log, ElementsAre(0, 1, 2, 3, 3, 2, 0, 0, 2));
  EXPECT_EQ(results[0]->milliseconds, 11) << "one disturbed run does not count";
  EXPECT_EQ(results[0]->repetitions, 3);
  EXPECT_EQ(results[1]->repetitions, 1) << "hopeless";
  EXPECT_EQ(results[2]->milliseconds, 10.5);
  EXPECT_EQ(results[3]->repetitions, 2) << "slow";
}

TEST(Measure, ShortWorkIsRepeatedWithinATurn) {
  test::FakeDevice device;
  std::vector<int> log;
  MeasureOptions options;
  options.repetitions = 3;
  options.turnMilliseconds = 10;
  int prepared = 0;
  TimedWork contestant = work(device, {8, 4}, &log);
  contestant.prepare = [&]() -> Status {
    ++prepared;
    device.clock = device.clock + 100;
    return {};
  };
  const auto results = race(device, nullptr, {contestant}, options, {});
  EXPECT_EQ(log.size(), 1u + 2u + 3u);
  EXPECT_EQ(prepared, 3);
  EXPECT_EQ(results[0]->milliseconds, 4);
  EXPECT_EQ(results[0]->repetitions, 3);
}

TEST(Measure, TheSlowerHalfDropsOutRoundByRound) {
  test::FakeDevice device;
  std::vector<TimedWork> contestants;
  for (int i = 0; i < 10; ++i)
    contestants.push_back(work(device, {100.0 + i}));
  MeasureOptions options = singleRuns();
  options.repetitions = 5;
  const auto repetitions = [&] {
    std::vector<int> counts;
    for (const auto &result : race(device, nullptr, contestants, options, {}))
      counts.push_back(result->repetitions);
    return counts;
  };
  EXPECT_THAT(repetitions(), ElementsAre(5, 5, 5, 3, 3, 2, 2, 2, 2, 2));
  options.survivors = 10;
  EXPECT_THAT(repetitions(), ::testing::Each(5));
}

TEST(Measure, AFailureIsItsOwn) {
  test::FakeDevice device;
  const auto results =
      race(device, nullptr, {{[] { return runtimeError("broken"); }, {}}, work(device, {1})}, {}, {});
  EXPECT_EQ(results[0].status().message(), "broken");
  EXPECT_TRUE(results[1].ok());
}

TEST(Measure, AStopKeepsWhatWasTimed) {
  test::FakeDevice device;
  int asked = 0;
  const auto results =
      race(device, nullptr, {work(device, {1}), work(device, {1})}, {}, [&] { return ++asked > 2; });
  EXPECT_TRUE(results[0].ok());
  EXPECT_FALSE(results[1].ok());
}

} // namespace
} // namespace tilewright
