#include "compiler/base/log.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

TEST(Log, WritesOneLineAtItsLevelOrAbove) {
  setenv("TILEWRIGHT_LOG", "warning", 1);
  ::testing::internal::CaptureStderr();
  logError("broken");
  logWarning("first\nsecond");
  logInfo("not shown");
  logDebug("not shown");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "tilewright: error: broken\ntilewright: warning: first second\n");
}

} // namespace
} // namespace tilewright
