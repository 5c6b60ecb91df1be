#include "tools/commands/planned_call.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

DeviceInfo h200() {
  DeviceInfo info;
  info.units = 132;
  info.sharedBytes = 232448;
  info.cacheBytes = 50 << 20;
  info.memoryBytes = int64_t(141) << 30;
  info.warpgroups = true;
  return info;
}

TEST(PlannedCall, UsesHoppersOwnInstructionsWhereACallDoes) {
  const StatusOr<PlannedCall> call = plannedCall(h200(), {16384, 4096, 128256}, ElementType::bf16, "");
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_FALSE(call->tuned);
  EXPECT_GT(call->workspaceBytes, 0);
  EXPECT_EQ(call->scheme, "E bf16, small ones flushed, shifts of rows, repaired, totals before losses, "
                          "rows finished with their losses, rows scaled in place");
  for (const lce::Product &product : {call->config.forward, call->config.dHidden, call->config.dWeight})
    EXPECT_TRUE(lce::hasRoles(product)) << product.str();
}

TEST(PlannedCall, UsesPortableCodeElsewhere) {
  DeviceInfo older = h200();
  older.warpgroups = false;
  const StatusOr<PlannedCall> call = plannedCall(older, {16384, 4096, 128256}, ElementType::bf16, "");
  ASSERT_TRUE(call.ok()) << call.status().message();
  EXPECT_FALSE(lce::hasRoles(call->config.forward));
}

} // namespace
} // namespace tilewright
