#include "autotune/tuner.h"

#include <atomic>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_tunable.h"

namespace tilewright {
namespace {

using test::FakeTunable;
using ::testing::HasSubstr;

class TunerTest : public ::testing::Test {
protected:
  test::FakeDevice device_;
  FakeTunable tunable_{device_};
  TunerOptions options_;
};

std::string namesOf(const std::vector<MeasuredConfiguration> &all) {
  std::string text;
  for (const MeasuredConfiguration &one : all)
    text += one.configuration.str() + "\n";
  return text;
}

TEST_F(TunerTest, FindsTheFrontier) {
  const auto outcome = tune(tunable_, options_);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  const TuningRecord &record = outcome->record;
  EXPECT_EQ(namesOf(record.winners), "a=64 b=3 chunk=400\na=64 b=3 chunk=200\na=64 b=3 chunk=100\n");
  EXPECT_DOUBLE_EQ(record.winners[0].milliseconds, 10.5);
  EXPECT_EQ(record.winners[0].repetitions, options_.measure.repetitions);
  EXPECT_EQ(record.winners[0].workspaceBytes, 400000);
  EXPECT_EQ(record.heuristic.configuration, tunable_.heuristic());
  EXPECT_DOUBLE_EQ(record.heuristic.milliseconds, 13);
  EXPECT_TRUE(record.complete);
  EXPECT_EQ(record.key.str(), tunable_.key().str());
  EXPECT_EQ(outcome->pruned.at("a is too large"), 3);
  EXPECT_EQ(tunable_.checks, 11) << "9 blocks, the heuristic one among them, and 2 more chunks";
  EXPECT_EQ(record.winners.size() + record.measured.size(), 11u);
}

TEST_F(TunerTest, IsDeterministic) {
  const auto first = tune(tunable_, options_);
  test::FakeDevice device;
  FakeTunable again(device);
  const auto second = tune(again, options_);
  EXPECT_EQ(encodeTuningFile({{first->record}, "", {}}), encodeTuningFile({{second->record}, "", {}}));
}

TEST_F(TunerTest, APartIsCheckedAndTimedAlone) {
  tunable_.parted = true;
  const auto outcome = tune(tunable_, options_);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  const TuningRecord &record = outcome->record;
  EXPECT_EQ(namesOf(record.winners), "a=64 b=3 chunk=400\na=64 b=3 chunk=200\na=64 b=3 chunk=100\n");
  EXPECT_EQ(tunable_.part.checks, 9);
  EXPECT_EQ(tunable_.checks, 4) << "the heuristic one, the best blocks, 2 more chunks";
  EXPECT_EQ(record.tried, 11);
  EXPECT_EQ(record.winners.size() + record.measured.size(), 4u);
  ASSERT_EQ(record.parts.size(), 9u);
  EXPECT_EQ(record.parts[0].part, "blocks");
  EXPECT_EQ(record.parts[0].configuration.str(), "a=64 b=3");
  EXPECT_DOUBLE_EQ(record.parts[0].milliseconds, 2) << "what a part prepares is not timed";
  EXPECT_EQ(record.parts[0].repetitions, options_.measure.repetitions);
  EXPECT_EQ(record.parts.back().repetitions, 2) << "hopeless, which one run is not enough to tell";
}

TEST_F(TunerTest, APartIsCompiledBeforeItRuns) {
  tunable_.parted = true;
  options_.limit = 6;
  ASSERT_TRUE(tune(tunable_, options_).ok());
  EXPECT_EQ(tunable_.part.compiledFirst, 4u) << "the best so far, too";
  EXPECT_EQ(tunable_.part.compiles.size(), 4u);
  for (const auto &[configuration, count] : tunable_.part.compiles)
    EXPECT_EQ(count, 1) << configuration;
}

TEST_F(TunerTest, APartThatCannotBeCompiledIsNamedAndNeverRun) {
  tunable_.parted = true;
  tunable_.part.broken = "a=64 b=3 chunk=200";
  const auto outcome = tune(tunable_, options_);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(tunable_.part.checks, 8);
  EXPECT_EQ(outcome->record.tried, 11);
  ASSERT_EQ(outcome->failures.size(), 1u);
  EXPECT_EQ(outcome->failures[0].cause, "the fake compiler breaks");
}

TEST_F(TunerTest, APartThatIsWrongIsNamedAndNeverTimed) {
  tunable_.parted = true;
  tunable_.part.wrong["a=64 b=3 chunk=200"] = "dx differs from the reference by 0.5";
  const auto outcome = tune(tunable_, options_);
  ASSERT_TRUE(outcome.ok());
  ASSERT_EQ(outcome->failures.size(), 1u);
  EXPECT_EQ(outcome->failures[0].cause, "dx differs from the reference by 0.5");
  EXPECT_EQ(outcome->record.parts.size(), 8u);
  EXPECT_THAT(namesOf(outcome->record.winners), ::testing::Not(HasSubstr("a=64 b=3")));
}

TEST_F(TunerTest, WhatIsBestAloneMustBeRightAndGoodAsAWhole) {
  tunable_.parted = true;
  tunable_.wrong["a=64 b=3 chunk=200"] = "dw is NaN";
  auto outcome = tune(tunable_, options_);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->record.winners[0].configuration.str(), "a=32 b=2 chunk=400");
  EXPECT_EQ(outcome->failures.size(), 1u);

  tunable_.wrong.clear();
  tunable_.part.deceiving = true;
  outcome = tune(tunable_, options_);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->record.winners[0].configuration.str(), "a=32 b=2 chunk=400");
}

TEST_F(TunerTest, TriesNoMoreThanTheLimit) {
  options_.limit = 4;
  const auto outcome = tune(tunable_, options_);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(tunable_.checks, 4);
  EXPECT_TRUE(outcome->record.complete);
  options_.limit = 1;
  tunable_.checks = 0;
  EXPECT_EQ(namesOf(tune(tunable_, options_)->record.winners), tunable_.heuristic().str() + "\n");
  EXPECT_EQ(tunable_.checks, 1);
}

TEST_F(TunerTest, WrongResultsAreNamedAndNeverTimed) {
  const std::string best = "a=64 b=3 chunk=200";
  tunable_.wrong[best] = "dx differs from the reference by 0.5";
  const auto outcome = tune(tunable_, options_);
  ASSERT_TRUE(outcome.ok());
  ASSERT_EQ(outcome->failures.size(), 1u);
  EXPECT_EQ(outcome->failures[0].configuration.str(), best);
  EXPECT_EQ(outcome->failures[0].cause, "dx differs from the reference by 0.5");
  EXPECT_THAT(namesOf(outcome->record.winners) + namesOf(outcome->record.measured),
              ::testing::Not(HasSubstr(best)));
}

TEST_F(TunerTest, SearchesOnWhenTheHeuristicOneIsWrong) {
  tunable_.wrong[tunable_.heuristic().str()] = "loss is NaN";
  const auto outcome = tune(tunable_, options_);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->record.winners[0].configuration.str(), "a=64 b=3 chunk=400");
  EXPECT_EQ(outcome->record.heuristic.repetitions, 0);
}

TEST_F(TunerTest, FailsWhenNothingWorks) {
  options_.limit = 1;
  tunable_.wrong[tunable_.heuristic().str()] = "loss is NaN";
  const auto outcome = tune(tunable_, options_);
  ASSERT_FALSE(outcome.ok());
  EXPECT_THAT(outcome.status().message(), HasSubstr("loss is NaN"));
}

TEST_F(TunerTest, KeepsToTheWorkspaceLimit) {
  options_.workspaceLimit = 200000;
  const auto outcome = tune(tunable_, options_);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->record.winners[0].configuration.str(), "a=64 b=3 chunk=200");
  EXPECT_EQ(outcome->pruned.at("needs more memory than the workspace limit"), 1);
}

TEST_F(TunerTest, ASlowingDeviceDoesNotMislead) {
  // Every run is slower than the one before, so that times of different races do not compare.
  tunable_.whileRunning = [&] { tunable_.slowness *= 1.005; };
  options_.measure.turnMilliseconds = 0;
  const auto outcome = tune(tunable_, options_);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->record.winners[0].configuration.str(), "a=64 b=3 chunk=400");
}

// Neighbours of a busy machine: a turn takes as long as they let it. Which of two configurations is faster is
// then chance, and the planner's keeps its place. What takes less memory is kept behind it.
TEST_F(TunerTest, ChanceDoesNotReplaceTheUntunedOne) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> slowness(0.5, 1.5);
  tunable_.whileRunning = [&] { tunable_.slowness = slowness(random); };
  options_.measure.turnMilliseconds = 0;
  for (int search = 0; search < 10; ++search) {
    const auto outcome = tune(tunable_, options_);
    ASSERT_TRUE(outcome.ok());
    const TuningRecord &record = outcome->record;
    for (const MeasuredConfiguration &winner : record.winners)
      EXPECT_TRUE(winner.configuration == tunable_.heuristic() ||
                  winner.workspaceBytes < record.heuristic.workspaceBytes ||
                  winner.milliseconds < record.heuristic.spread.least)
          << winner.configuration.str() << " in " << winner.milliseconds << " ms, untuned "
          << record.heuristic.spread.least << " to " << record.heuristic.spread.most;
    const MeasuredConfiguration *chosen = chooseWinner(record, 0, [](const auto &) { return true; });
    ASSERT_NE(chosen, nullptr);
    EXPECT_TRUE(chosen->configuration == tunable_.heuristic() ||
                chosen->milliseconds < record.heuristic.spread.least)
        << chosen->configuration.str() << " in " << chosen->milliseconds << " ms, untuned "
        << record.heuristic.spread.least << " to " << record.heuristic.spread.most;
  }
}

TEST_F(TunerTest, AStopAtAnyMomentKeepsWhatWasMeasured) {
  for (int moment = 1;; moment += 3) {
    test::FakeDevice device;
    FakeTunable tunable(device);
    tunable.parted = moment % 2;
    std::atomic<int> asked{0}; // by several threads
    options_.stop = [&] { return ++asked > moment; };
    const auto outcome = tune(tunable, options_);
    if (!outcome.ok()) {
      EXPECT_LE(tunable.runs, options_.measure.maxWarmUps);
      EXPECT_THAT(outcome.status().message(), HasSubstr("stopped"));
      continue;
    }
    ASSERT_FALSE(outcome->record.winners.empty()) << moment;
    EXPECT_TRUE(outcome->failures.empty()) << "a stop is no failure";
    if (outcome->record.complete) break;
  }
}

TEST_F(TunerTest, ReportsProgress) {
  std::vector<TuningProgress> reports;
  options_.progress = [&](const TuningProgress &progress) { reports.push_back(progress); };
  ASSERT_TRUE(tune(tunable_, options_).ok());
  ASSERT_GE(reports.size(), 11u);
  EXPECT_EQ(reports.front().step, "untuned");
  EXPECT_EQ(reports.front().tried, 1);
  EXPECT_EQ(reports.front().milliseconds, 0);
  EXPECT_EQ(reports.back().step, "final");
  EXPECT_LE(reports.back().tried, reports.back().planned);
  EXPECT_EQ(reports.back().best, "a=64 b=3 chunk=400");
  EXPECT_DOUBLE_EQ(reports.back().milliseconds, 10.5);
}

TEST_F(TunerTest, TheRecordHasSpreadAndClock) {
  device_.megahertz = 1755;
  tunable_.parted = true;
  int runs = 0;
  tunable_.whileRunning = [&] { tunable_.slowness = ++runs % 2 ? 1 : 1.01; };
  options_.measure.turnMilliseconds = 0;
  const auto outcome = tune(tunable_, options_);
  ASSERT_TRUE(outcome.ok());
  const MeasuredConfiguration &winner = outcome->record.winners[0];
  EXPECT_LT(winner.spread.least, winner.spread.most);
  EXPECT_LE(winner.spread.least, winner.milliseconds);
  EXPECT_GE(winner.spread.most, winner.milliseconds);
  EXPECT_EQ(winner.spread.clockMegahertz, 1755);
  EXPECT_GT(outcome->record.parts[0].spread.most, 0);
  EXPECT_EQ(outcome->record.parts[0].spread.clockMegahertz, 1755);
}

/// The name of what a record offers under a limit, of "fast", "nearly" and "small".
std::string offered(const TuningRecord &record, int64_t limit) {
  const auto fits = [&](const auto &w) { return limit == 0 || w.workspaceBytes <= limit; };
  const MeasuredConfiguration *winner = chooseWinner(record, limit, fits);
  return winner ? *winner->configuration.text("name") : "none";
}

TuningRecord recordOfThree() {
  TuningRecord record;
  record.winners = {{{{"name", "fast"}}, 100, 5, 900},
                    {{{"name", "nearly"}}, 101, 5, 400},
                    {{{"name", "small"}}, 150, 5, 100}};
  return record;
}

TEST(TuningRecord, TheWinnerIsTheFastestThatFits) {
  const TuningRecord record = recordOfThree();
  EXPECT_EQ(offered(record, 0), "fast");
  EXPECT_EQ(offered(record, 1000), "fast");
  EXPECT_EQ(offered(record, 500), "nearly");
  EXPECT_EQ(offered(record, 399), "small");
  EXPECT_EQ(offered(record, 99), "none");
}

TEST(TuningRecord, ASearchUnderALimitSaysNothingOfLargerOnes) {
  TuningRecord record = recordOfThree();
  record.workspaceLimit = 950;
  EXPECT_EQ(offered(record, 950), "fast");
  EXPECT_EQ(offered(record, 500), "nearly");
  EXPECT_EQ(offered(record, 951), "none");
  EXPECT_EQ(offered(record, 0), "none");
}

TEST(TuningRecord, AWinnerThatIsSlowerThanTheUntunedOneIsForThePlannerToJudge) {
  TuningRecord record = recordOfThree();
  record.heuristic = {{{"name", "untuned"}}, 120, 5, 1000};
  EXPECT_EQ(offered(record, 500), "nearly");
  EXPECT_EQ(offered(record, 399), "none");
}

TEST(TuningRecord, TheFrontierHoldsWhatNothingBeats) {
  const auto measured = [](double milliseconds, int64_t bytes) {
    return MeasuredConfiguration{{}, milliseconds, 1, bytes};
  };
  const auto best =
      frontier({measured(3, 30), measured(1, 90), measured(2, 90), measured(1, 95), measured(9, 10)});
  ASSERT_EQ(best.size(), 3u);
  EXPECT_EQ(best[0].workspaceBytes, 90);
  EXPECT_EQ(best[1].workspaceBytes, 30);
  EXPECT_EQ(best[2].workspaceBytes, 10);
}

TEST(TuningRecord, SizesShareBuckets) {
  EXPECT_EQ(sizeBucket(0), 1);
  EXPECT_EQ(sizeBucket(1), 1);
  EXPECT_EQ(sizeBucket(513), 1024);
  EXPECT_EQ(sizeBucket(1024), 1024);
  EXPECT_EQ(sizeBucket(INT64_MAX), int64_t(1) << 62);
}

} // namespace
} // namespace tilewright
