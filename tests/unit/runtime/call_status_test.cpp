// What the kernels of a call tell of its data, word by word.

#include "runtime/call_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cpu/cpu_device.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

class CallStatusTest : public ::testing::Test {
protected:
  /// As a kernel writes it; `place` 0: every label is good.
  void reportLabels(int64_t run, int64_t place, int64_t label, int64_t classes = 40, int64_t ignored = -100) {
    words[kBadRowPlace] = place, words[kBadLabel] = label;
    words[kLabelClasses] = classes, words[kLabelIgnoreIndex] = ignored;
    words[kLabelCheck] = run + place + label + classes + ignored;
  }
  void reportWeights(int64_t run, int64_t place) {
    words[kBadClassPlace] = place;
    words[kWeightCheck] = run + place;
  }

  int64_t words[kCallStatusWords] = {};
  CpuDevice cpu{1};
  CallStatus status = *CallStatus::at(cpu, words);
};

TEST_F(CallStatusTest, NoCallIsDoneAndFine) {
  EXPECT_TRUE(CallStatus().isDone());
  EXPECT_TRUE(CallStatus().error().ok());
  EXPECT_TRUE(status.isDone());
}

TEST_F(CallStatusTest, IsDoneOnceTheLabelsWereSeen) {
  const int64_t run = status.beginRun(true, false);
  EXPECT_FALSE(status.isDone());
  EXPECT_TRUE(status.error().ok());
  reportLabels(run, 0, 0);
  EXPECT_TRUE(status.isDone());
  EXPECT_TRUE(status.error().ok());
}

TEST_F(CallStatusTest, NamesRowAndLabel) {
  reportLabels(status.beginRun(true, false), 8, -1);
  EXPECT_TRUE(status.isDone());
  EXPECT_EQ(status.error().kind(), StatusKind::user);
  EXPECT_EQ(status.error().message(), labelError(7, -1, 40, -100).message());
}

TEST_F(CallStatusTest, AnotherRunsReportIsNotThisOnes) {
  reportLabels(status.beginRun(true, false), 8, -1);
  status.beginRun(true, false);
  EXPECT_FALSE(status.isDone());
  EXPECT_TRUE(status.error().ok());
}

TEST_F(CallStatusTest, WordsThatAreNotAllThereSayNothing) {
  const int64_t run = status.beginRun(true, false);
  reportLabels(run, 8, -1);
  words[kBadLabel] = 41;
  EXPECT_FALSE(status.isDone());
  EXPECT_TRUE(status.error().ok());
}

TEST_F(CallStatusTest, NamesTheClassOfABadWeight) {
  const int64_t run = status.beginRun(true, true);
  reportLabels(run, 0, 0);
  EXPECT_FALSE(status.isDone()) << "the weights were not seen";
  reportWeights(run, 4);
  EXPECT_TRUE(status.isDone());
  EXPECT_THAT(status.error().message(), HasSubstr("class 3"));
}

TEST_F(CallStatusTest, TellsLargeNumbersWithoutOverflow) {
  words[kBadRowPlace] = 1001, words[kBadLabel] = INT64_MIN;
  words[kLabelClasses] = INT32_MAX, words[kLabelIgnoreIndex] = INT64_MIN + 1;
  uint64_t sum = static_cast<uint64_t>(status.beginRun(true, false));
  for (const CallStatusWord word : {kBadRowPlace, kBadLabel, kLabelClasses, kLabelIgnoreIndex})
    sum += static_cast<uint64_t>(words[word]);
  words[kLabelCheck] = static_cast<int64_t>(sum);
  EXPECT_EQ(status.error().message(), labelError(1000, INT64_MIN, INT32_MAX, INT64_MIN + 1).message());
}

TEST_F(CallStatusTest, WithoutRowsThereIsNothingToSee) {
  status.beginRun(false, false);
  EXPECT_TRUE(status.isDone());
}

TEST(CallStatus, HasMemoryOfADevice) {
  CpuDevice device(1);
  StatusOr<CallStatus> status = CallStatus::allocate(device);
  ASSERT_TRUE(status.ok());
  EXPECT_TRUE(status->isUnused());
  const CallStatus copy = *status;
  EXPECT_FALSE(status->isUnused());
  EXPECT_EQ(copy.words(), status->words());
}

} // namespace
} // namespace tilewright
