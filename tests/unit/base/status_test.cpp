#include "compiler/base/status.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

TEST(StatusOr, OfAnOkStatusAloneIsAnInternalError) {
  const StatusOr<int> value{Status()};
  EXPECT_FALSE(value.ok());
  EXPECT_EQ(value.status().kind(), StatusKind::internal);
}

TEST(Status, OtherWordsLeaveTheErrorWhatItIs) {
  const Status fault(StatusKind::device, "it failed", 700);
  EXPECT_EQ(fault.in("kernel 'k'").message(), "kernel 'k': it failed");
  for (const Status &told : {fault.in("x"), fault.saying("y")}) {
    EXPECT_EQ(told.kind(), StatusKind::device);
    EXPECT_EQ(told.driverNumber(), 700);
  }
  EXPECT_EQ(userError("no").driverNumber(), 0);
}

Status chosen(bool first, const Status &status, bool &otherwise) {
  if (first)
    TW_RETURN_IF_ERROR(status);
  else
    otherwise = true;
  return {};
}

TEST(ReturnIfError, LeavesAnElseToTheIfBeforeIt) {
  bool otherwise = false;
  EXPECT_TRUE(chosen(true, {}, otherwise).ok());
  EXPECT_FALSE(otherwise);
  EXPECT_EQ(chosen(true, userError("no"), otherwise).message(), "no");
  EXPECT_FALSE(otherwise);
  EXPECT_TRUE(chosen(false, userError("no"), otherwise).ok());
  EXPECT_TRUE(otherwise);
}

} // namespace
} // namespace tilewright
