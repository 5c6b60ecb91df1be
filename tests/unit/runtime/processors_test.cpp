#include "runtime/cpu/processors.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace tilewright {
namespace {

using test::TemporaryFolder;

void addCache(const TemporaryFolder &system, int processor, int index, const std::string &level,
              const std::string &size, const std::string &sharedBy) {
  const std::string folder =
      system / ("cpu" + std::to_string(processor) + "/cache/index" + std::to_string(index));
  std::filesystem::create_directories(folder);
  test::writeWholeFile(folder + "/level", level + "\n");
  test::writeWholeFile(folder + "/size", size + "\n");
  test::writeWholeFile(folder + "/shared_cpu_list", sharedBy + "\n");
}

// Two processors share one last cache and a third has its own, of a socket with many more of them.
TEST(Processors, EachLastCacheOfTheirsCountsOnce) {
  const TemporaryFolder system;
  for (int processor = 0; processor < 4; ++processor) {
    const std::string own = std::to_string(processor);
    addCache(system, processor, 0, "1", "32K", own);
    addCache(system, processor, 1, "3", "32768K", processor < 2 ? "0-1" : own);
    addCache(system, processor, 2, "2", "512K", own);
  }
  EXPECT_EQ(lastCacheBytes({0}, system.path()), 32 << 20);
  EXPECT_EQ(lastCacheBytes({0, 1}, system.path()), 32 << 20);
  EXPECT_EQ(lastCacheBytes({1, 2}, system.path()), 64 << 20);
  EXPECT_EQ(lastCacheBytes({0, 1, 2, 3}, system.path()), 96 << 20);
}

TEST(Processors, HaveNoLastCacheWhereTheSystemSaysNothing) {
  const TemporaryFolder system;
  EXPECT_EQ(lastCacheBytes({0, 1}, system.path()), 0);
  addCache(system, 0, 0, "2", "", "0");
  EXPECT_EQ(lastCacheBytes({0}, system.path()), 0);
  addCache(system, 1, 0, "2", "4M", "");
  EXPECT_EQ(lastCacheBytes({0, 1}, system.path()), 4 << 20);
}

} // namespace
} // namespace tilewright
