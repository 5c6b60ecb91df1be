// Search spaces, the cost model and measuring, without a device.

#include <limits>
#include <random>

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

TEST(Configuration, TextReadsBack) {
  for (const Configuration &c :
       {Configuration{}, pair(0, -5),
        pair(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()),
        Configuration{{"forward_roles", "ping-pong"}, {"dx.rows", "a/b:c"}},
        Configuration{
            {"text", "512"}, {"empty", ""}, {"", "-1"}, {"spaces", " a=b "}, {"quote", "\"\\x41\""}},
        Configuration{{"bytes", std::string("\0\n\x7f\xff\xc3\xa9", 6)}, {"a=b c", int64_t(1)}}}) {
    const auto parsed = parseConfiguration(c.str());
    ASSERT_TRUE(parsed.ok()) << c.str() << ": " << parsed.status().message();
    EXPECT_EQ(*parsed, c) << c.str();
    EXPECT_EQ(parsed->str(), c.str());
  }
  EXPECT_EQ(*parseConfiguration("  a=1   b=2 "), pair(1, 2));
  EXPECT_EQ((Configuration{{"text", "512"}}.str()), "text=\"512\"") << "no integer";
}

TEST(Configuration, TextFromAStrangerIsReadWithCare) {
  struct Case {
    std::string text, message;
  };
  for (const Case &c : {
           Case{"a", "NAME=VALUE, found \"a\""},
           Case{"a=1 chunk b=2", "found \"chunk\""},
           Case{"=1", "found \"=1\""},
           Case{"a=", "found \"a=\""},
           Case{"a= 1", "found \"a=\""},
           Case{"a=1,b=2", "found \"a=1,b=2\""},
           Case{"a=1 a=2", "each name once, found \"a=2\""},
           Case{"a=9223372036854775808", "integer of 64 bits"},
           Case{"a=007", "without leading zeros"},
           Case{"a=-0", "without leading zeros"},
           Case{"a=1e3", "found \"a=1e3\""},
           Case{"a=12x", "found \"a=12x\""},
           Case{"a=--1", "integer of 64 bits"},
           Case{"a=+1", "found \"a=+1\""},
           Case{"a=\"b", "closing quote"},
           Case{"a=\"b\"c", "a space behind the value"},
           Case{"a=\"\\n\"", "\\xHH"},
           Case{"a=\"\\x4\"", "\\xHH"},
           Case{"a=\"\\x-1\"", "\\xHH"},
           Case{"a=\"\\", "\\xHH"},
           Case{std::string("a=1\0", 4), "found \"a=1\\x00\""},
           Case{"a\tb=1", "found \"a\\x09b=1\""},
           Case{"\xff=1", "found \"\\xff=1\""},
           Case{"a=" + std::string(600, 'x'), "xxx\"..."},
           Case{"a=\"" + std::string(600, 'x') + "\"", "at most 512"},
           Case{std::string(100000, ' '), "at most 16384 characters"},
       }) {
    const auto parsed = parseConfiguration(c.text);
    ASSERT_FALSE(parsed.ok()) << c.text;
    EXPECT_EQ(parsed.status().kind(), StatusKind::user);
    EXPECT_THAT(parsed.status().message(), ::testing::HasSubstr(c.message)) << c.text;
  }
  std::string many;
  for (int i = 0; i < 65; ++i)
    many += "a" + std::to_string(i) + "=1 ";
  EXPECT_THAT(parseConfiguration(many).status().message(), ::testing::HasSubstr("at most 64 values"));
}

TEST(Configuration, AnyTextIsRefusedOrReadsBack) {
  std::mt19937 random(1);
  const std::string alphabet("ab=1 9-\"\\x\0\n\xff.", 14);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int length = static_cast<int>(random() % 24); length > 0; --length)
      text += alphabet[random() % alphabet.size()];
    const auto parsed = parseConfiguration(text);
    EXPECT_TRUE(!parsed.ok() || *parseConfiguration(parsed->str()) == *parsed) << text;
  }
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
  EXPECT_THAT(log, ElementsAre(0, 1, 2, 3, 3, 2, 1, 0, 0, 2));
  EXPECT_EQ(results[0]->milliseconds, 11) << "one disturbed run does not count";
  EXPECT_EQ(results[0]->repetitions, 3);
  EXPECT_EQ(results[0]->spread.least, 10);
  EXPECT_EQ(results[0]->spread.most, 30);
  EXPECT_EQ(results[1]->repetitions, 2) << "hopeless";
  EXPECT_EQ(results[2]->milliseconds, 10.5);
  EXPECT_EQ(results[3]->repetitions, 2) << "slow";
}

TEST(Measure, OneDisturbedRunDropsNobody) {
  test::FakeDevice device;
  std::vector<TimedWork> candidates(8, work(device, {10}));
  for (TimedWork &candidate : candidates)
    candidate = work(device, {10});
  candidates[5] = work(device, {50, 9});
  MeasureOptions options = singleRuns();
  options.repetitions = 5;
  const auto results = race(device, nullptr, candidates, options, {});
  EXPECT_EQ(results[5]->repetitions, 5);
  EXPECT_EQ(results[5]->milliseconds, 9);
}

TEST(Measure, TheHopelessRunOnceMoreOnly) {
  test::FakeDevice device;
  std::vector<int> log;
  MeasureOptions options;
  options.repetitions = 2;
  options.turnMilliseconds = 100;
  race(device, nullptr, {work(device, {10}, &log, 0), work(device, {20}, &log, 1)}, options, {});
  EXPECT_EQ(std::count(log.begin(), log.end(), 0), 1 + 10);
  EXPECT_EQ(std::count(log.begin(), log.end(), 1), 1 + 1);
}

/// Runs and flushes of a race on a device with a cache of 1000 bytes: "r" and "f".
std::string flushed(int64_t workingSetBytes, int64_t otherBytes, double copyMilliseconds = 0) {
  DeviceInfo info;
  info.cacheBytes = 1000;
  test::FakeDevice device(info, Target{TargetKind::cpu, "fake", ""});
  std::string log;
  device.onCopy = [&](std::size_t bytes) {
    EXPECT_GE(bytes, 1000u);
    device.clock = device.clock + copyMilliseconds;
    log += 'f';
  };
  const auto candidate = [&](int64_t bytes) {
    return TimedWork{[&]() -> Status {
                       device.clock = device.clock + 5;
                       log += 'r';
                       return {};
                     },
                     {},
                     bytes};
  };
  MeasureOptions options;
  options.repetitions = 2;
  options.turnMilliseconds = 15;
  const auto results =
      race(device, nullptr, {candidate(workingSetBytes), candidate(otherBytes)}, options, {});
  for (const auto &result : results)
    EXPECT_EQ(result->milliseconds, 5) << "a flush is not timed";
  return log;
}

TEST(Measure, CachesAreFlushedBetweenRunsOfSmallWork) {
  EXPECT_EQ(flushed(2000, 2001), "rrrrrrrr") << "larger than the cache";
  EXPECT_EQ(flushed(2000, 0), "f"
                              "frfr"
                              "frfrfr"
                              "frfrfr")
      << "one candidate may be small";
  EXPECT_EQ(flushed(1999, 2000, 10), "f"
                                     "frfr"
                                     "fr"
                                     "fr")
      << "a turn is as long as both together";
}

TEST(Measure, ShortWorkIsRepeatedWithinATurn) {
  test::FakeDevice device;
  std::vector<int> log;
  MeasureOptions options;
  options.repetitions = 3;
  options.turnMilliseconds = 10;
  int prepared = 0;
  TimedWork candidate = work(device, {8, 4}, &log);
  candidate.prepare = [&]() -> Status {
    ++prepared;
    device.clock = device.clock + 100;
    return {};
  };
  const auto results = race(device, nullptr, {candidate}, options, {});
  EXPECT_EQ(log.size(), 1u + 2u + 3u);
  EXPECT_EQ(prepared, 3);
  EXPECT_EQ(results[0]->milliseconds, 4);
  EXPECT_EQ(results[0]->repetitions, 3);
}

TEST(Measure, TheSlowerHalfDropsOutRoundByRound) {
  test::FakeDevice device;
  std::vector<TimedWork> candidates;
  for (int i = 0; i < 10; ++i)
    candidates.push_back(work(device, {100.0 + i}));
  MeasureOptions options = singleRuns();
  options.repetitions = 5;
  const auto repetitions = [&] {
    std::vector<int> counts;
    for (const auto &result : race(device, nullptr, candidates, options, {}))
      counts.push_back(result->repetitions);
    return counts;
  };
  EXPECT_THAT(repetitions(), ElementsAre(5, 5, 5, 3, 3, 2, 2, 2, 2, 2));
  options.survivors = 10;
  EXPECT_THAT(repetitions(), ::testing::Each(5));
}

TEST(Measure, LongWorkHasFewerTurns) {
  test::FakeDevice device;
  const auto repetitions = [&](double milliseconds) {
    const auto results =
        race(device, nullptr, {work(device, {milliseconds}), work(device, {1.5 * milliseconds})},
             MeasureOptions(), {});
    return std::pair(results[0]->repetitions, results[1]->repetitions);
  };
  EXPECT_EQ(repetitions(100), std::pair(5, 2));
  EXPECT_EQ(repetitions(300), std::pair(3, 1)) << "one long run is enough to tell who is hopeless";
  EXPECT_EQ(repetitions(5000), std::pair(1, 1));
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
