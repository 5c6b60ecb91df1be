#include "runtime/label_report.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tilewright {
namespace {

using ::testing::HasSubstr;

void report(int64_t (&words)[kLabelReportWords], int64_t row, int64_t label, int64_t classes,
            int64_t ignoreIndex) {
  const uint64_t sum = uint64_t(row) + 1 + uint64_t(label) + uint64_t(classes) + uint64_t(ignoreIndex);
  words[kReportedLabel] = label;
  words[kReportedClasses] = classes;
  words[kReportedIgnoreIndex] = ignoreIndex;
  words[kReportedCheck] = static_cast<int64_t>(sum);
  words[kReportedPlace] = row + 1;
}

TEST(LabelReport, NothingIsNoError) {
  int64_t words[kLabelReportWords] = {};
  EXPECT_TRUE(takeLabelReport(words).ok());
}

TEST(LabelReport, IsTakenOnce) {
  int64_t words[kLabelReportWords] = {};
  report(words, 0, 17, 17, -100);
  const Status status = takeLabelReport(words);
  EXPECT_EQ(status.kind(), StatusKind::user);
  EXPECT_EQ(status.message(), "label 17 in row 0 is no class: expected 0 to 16, or the ignore index -100");
  EXPECT_TRUE(takeLabelReport(words).ok());
  report(words, 3, -1, 17, -100);
  EXPECT_THAT(takeLabelReport(words).message(), HasSubstr("label -1 in row 3"));
}

TEST(LabelReport, HoldsAnyNumber) {
  int64_t words[kLabelReportWords] = {};
  report(words, 1000, INT64_MIN, INT32_MAX, INT64_MIN + 1);
  EXPECT_EQ(takeLabelReport(words).message(),
            labelError(1000, INT64_MIN, INT32_MAX, INT64_MIN + 1).message());
  report(words, 0, INT64_MAX, 1, INT64_MAX - 1);
  EXPECT_THAT(takeLabelReport(words).message(), HasSubstr("label 9223372036854775807 in row 0"));
}

TEST(LabelReport, WordsThatAreOnTheirWayAreWaitedFor) {
  int64_t words[kLabelReportWords] = {};
  words[kReportedPlace] = 6;
  std::thread kernel([&] {
    for (int word = kReportedLabel; word <= kReportedIgnoreIndex; ++word)
      __atomic_store_n(&words[word], 7, __ATOMIC_RELEASE);
    __atomic_store_n(&words[kReportedCheck], 6 + 3 * 7, __ATOMIC_RELEASE);
  });
  EXPECT_THAT(takeLabelReport(words).message(), HasSubstr("row 5"));
  kernel.join();
}

TEST(LabelReport, WordsOfSeveralKernelsAreAnErrorAllTheSame) {
  int64_t words[kLabelReportWords] = {};
  report(words, 4, 40, 40, -100);
  words[kReportedLabel] = 41;
  const Status status = takeLabelReport(words);
  EXPECT_EQ(status.kind(), StatusKind::user);
  EXPECT_THAT(status.message(), HasSubstr("labels in several calls at once are no classes"));
  EXPECT_TRUE(takeLabelReport(words).ok());
}

} // namespace
} // namespace tilewright
