#include "compiler/base/log.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

TEST(Log, WritesOneLineAtItsLevelOrAbove) {
  ::testing::internal::CaptureStderr();
  logError("broken");
  logWarning("first\nsecond");
  logInfo("not shown");
  logDebug("not shown");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "tilewright: error: broken\ntilewright: warning: first second\n");
}

TEST(Log, EscapesWhatWouldSteerATerminal) {
  ::testing::internal::CaptureStderr();
  logWarning("found \x1b[2J and \xff");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "tilewright: warning: found \\x1b[2J and \\xff\n");
}

} // namespace
} // namespace tilewright
