#include "compiler/base/memory_reserve.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace tilewright {
namespace {

class ReserveTest : public testing::Test {
protected:
  void SetUp() override { reserve::isWrapped = true; }
  void TearDown() override { reserve::isWrapped = false; }
};

TEST_F(ReserveTest, IsForThoseWhoUseIt) {
  EXPECT_FALSE(reserve::allocate(1, 1));
  UsesReserve outer;
  { UsesReserve inner; }
  void *memory = reserve::allocate(100, 1);
  ASSERT_TRUE(memory);
  EXPECT_TRUE(reserve::owns(memory));
  EXPECT_EQ(reserve::sizeOf(memory), 100u);
  std::thread([] { EXPECT_FALSE(reserve::allocate(1, 1)); }).join();
  reserve::free(memory);
  int local = 0;
  EXPECT_FALSE(reserve::owns(&local));
}

TEST_F(ReserveTest, BlocksAreAlignedAndApart) {
  UsesReserve uses;
  std::vector<char *> blocks;
  for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2)
    for (std::size_t bytes : {0, 1, 15, 16, 17, 1000}) {
      blocks.push_back(static_cast<char *>(reserve::allocate(bytes, alignment)));
      ASSERT_TRUE(blocks.back());
      EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back()) % alignment, 0u);
      std::memset(blocks.back(), static_cast<int>(blocks.size()), bytes);
    }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::size_t b = 0; b < reserve::sizeOf(blocks[i]); ++b)
      ASSERT_EQ(blocks[i][b], static_cast<char>(i + 1));
    reserve::free(blocks[i]);
  }
}

TEST_F(ReserveTest, WhatIsFreedServesAgainAndTheRestIsRefused) {
  UsesReserve uses;
  EXPECT_FALSE(reserve::allocate(reserve::kBytes, 1));
  EXPECT_FALSE(reserve::allocate(SIZE_MAX, 1));
  for (int round = 0; round < 3; ++round) {
    std::vector<void *> blocks;
    while (void *memory = reserve::allocate(1 << 20, 64))
      blocks.push_back(memory);
    EXPECT_GE(blocks.size(), 16u);
    reserve::free(blocks.back());
    blocks.back() = reserve::allocate(1 << 20, 64);
    EXPECT_TRUE(blocks.back());
    for (void *memory : blocks)
      reserve::free(memory);
  }
}

} // namespace
} // namespace tilewright
