#include <set>

#include "compiler/layout/axis_map.h"
#include "compiler/layout/fragments.h"
#include "compiler/layout/shared_tile.h"
#include "gtest/gtest.h"

namespace tilewright::layout {
namespace {

constexpr int64_t kThreads = 256;

/// Every position up to the span is held, by one register of each thread that agrees in the map's bits.
void expectCovers(const AxisMap &map) {
  std::vector<int> holders(map.span());
  for (int64_t thread = 0; thread < kThreads; ++thread) {
    if (thread & ~map.threadMask()) continue;
    for (int64_t reg = 0; reg < map.registers(); ++reg)
      ++holders.at(map.position(thread, reg));
  }
  EXPECT_GE(map.span(), map.extent);
  for (int64_t position = 0; position < map.span(); ++position)
    EXPECT_EQ(holders[position], 1) << position << " of " << map.extent;
}

void expectRuns(const AxisMap &map) {
  ASSERT_EQ(map.registers() % map.run, 0);
  for (int64_t thread = 0; thread < kThreads; ++thread)
    for (int64_t reg = 0; reg < map.registers(); ++reg) {
      EXPECT_EQ(map.position(thread, reg) % map.run, reg % map.run);
      EXPECT_EQ(map.position(thread, reg), map.position(thread, reg - reg % map.run) + reg % map.run);
    }
}

TEST(AxisMap, BlockedHoldsEveryPositionOnce) {
  for (int64_t extent : {1, 3, 8, 32, 100, 192, 1024})
    for (int64_t run : {1, 2, 4, 8})
      for (const std::vector<int> &bits : {std::vector<int>{}, {0, 1, 2}, {3, 5}, {0, 1, 2, 3, 4, 5, 6, 7}}) {
        const AxisMap map = blockedMap(extent, bits, run);
        expectCovers(map);
        expectRuns(map);
      }
}

TEST(AxisMap, AccumulatorsHoldEveryPositionOnce) {
  for (int64_t extent : {8, 16, 32, 64, 96, 128, 192, 256})
    for (const std::vector<int> &bits : {std::vector<int>{}, {5}, {6, 7}, {5, 6, 7}}) {
      for (const AxisMap &map : {accumulatorRows(extent, bits), accumulatorColumns(extent, bits)}) {
        expectCovers(map);
        expectRuns(map);
      }
      EXPECT_EQ(accumulatorRows(extent, bits).threadMask() & accumulatorColumns(extent, {}).threadMask(), 0);
    }
}

// Two warpgroups share a tile by its rows, or by its columns where those do not suffice.
TEST(AxisMap, WarpgroupsHoldEveryPositionOnce) {
  for (int64_t extent : {64, 128, 192, 256})
    for (int groupBits : {0, 1}) {
      if (extent % (64 << groupBits)) continue;
      const AxisMap rows = warpgroupRows(extent, groupBits);
      expectCovers(rows);
      EXPECT_EQ(rows.threadMask() & accumulatorColumns(extent, {}).threadMask(), 0);
    }
  for (int64_t extent : {8, 64, 128, 192, 200, 248, 256})
    for (const std::vector<int> &bits : {std::vector<int>{}, {7}}) {
      const AxisMap columns = warpgroupColumns(extent, bits);
      expectCovers(columns);
      expectRuns(columns);
      EXPECT_EQ(warpgroupRows(192, 0).threadMask() & columns.threadMask(), 0);
      EXPECT_EQ(warpgroupColumns(extent, {}).registers(), extent / 4) << "no padding";
    }
}

TEST(AxisMap, AccumulatorsAreThoseOfMma) {
  const AxisMap rows = accumulatorRows(16, {}), columns = accumulatorColumns(16, {});
  for (int64_t lane = 0; lane < 32; ++lane)
    for (int64_t reg = 0; reg < 4; ++reg) { // c0 … c3 of the first of the two operands
      EXPECT_EQ(rows.position(lane, reg / 2), lane / 4 + reg / 2 * 8);
      EXPECT_EQ(columns.position(lane, reg % 2), lane % 4 * 2 + reg % 2);
    }
}

const std::vector<SharedTile> &tiles() {
  static const std::vector<SharedTile> all = [] {
    std::vector<SharedTile> tiles;
    for (int64_t positions : {16, 32, 48, 64, 96, 128, 192, 256})
      for (int64_t depth : {32, 64})
        for (bool depthIsMinor : {true, false})
          tiles.push_back({positions, depth, depthIsMinor});
    return tiles;
  }();
  return all;
}

TEST(SharedTile, ChunksDoNotOverlap) {
  for (const SharedTile &tile : tiles()) {
    std::set<int64_t> offsets;
    const int64_t positionStep = tile.depthIsMinor ? 1 : 8, kStep = tile.depthIsMinor ? 8 : 1;
    for (int64_t position = 0; position < tile.positions; position += positionStep)
      for (int64_t k = 0; k < tile.depth; k += kStep) {
        const int64_t offset = tile.offset(position, k);
        EXPECT_EQ(offset % 16, 0);
        EXPECT_LE(offset + 16, tile.bytes());
        EXPECT_TRUE(offsets.insert(offset).second);
      }
  }
}

/// Passes over shared memory that 8 accesses of 16 bytes take: as many as lie in one group of 4 banks.
int64_t passes(const std::vector<int64_t> &offsets) {
  std::vector<int64_t> inGroup(8);
  int64_t most = 0;
  for (int64_t offset : offsets)
    most = std::max(most, ++inGroup[offset / 16 % 8]);
  return most;
}

TEST(SharedTile, LdmatrixHasNoBankConflicts) {
  for (const SharedTile &tile : tiles())
    for (Side side : {Side::left, Side::right})
      for (int64_t position = 0; position < tile.positions; position += 16)
        for (int64_t k = 0; k < tile.depth; k += 16)
          for (int64_t matrix = 0; matrix < 4; ++matrix) {
            std::vector<int64_t> offsets;
            for (int64_t lane = 8 * matrix; lane < 8 * matrix + 8; ++lane) {
              const auto at = fragmentPosition<int64_t>(side, tile.depthIsMinor, lane);
              offsets.push_back(tile.offset(position + at.position, k + at.k));
            }
            EXPECT_EQ(passes(offsets), 1);
          }
}

TEST(SharedTile, CopiesHaveNoBankConflicts) {
  for (const SharedTile &tile : tiles())
    for (int64_t chunk = 0; chunk < tile.lines() * tile.chunksPerLine(); chunk += 8) {
      std::vector<int64_t> offsets;
      for (int64_t i = chunk; i < chunk + 8; ++i) // 8 threads in a row copy 8 chunks in a row
        offsets.push_back(swizzled(i / tile.chunksPerLine(), i % tile.chunksPerLine(), tile.chunksPerLine()));
      EXPECT_EQ(passes(offsets), 1);
    }
}

/// Element (position, k) of a block, as one number.
constexpr int64_t id(int64_t position, int64_t k) { return 1000 * position + k; }

/// What ldmatrix puts in the two halves of a lane's register, given the element at the start of the chunk
/// that each lane addresses.
std::pair<int64_t, int64_t> loaded(Side side, bool depthIsMinor, int64_t lane, int64_t reg) {
  auto element = [&](int64_t line, int64_t inLine) {
    const auto at = fragmentPosition<int64_t>(side, depthIsMinor, 8 * reg + line);
    return depthIsMinor ? id(at.position, at.k + inLine) : id(at.position + inLine, at.k);
  };
  const int64_t g = lane / 4, t = lane % 4;
  if (depthIsMinor) return {element(g, 2 * t), element(g, 2 * t + 1)};
  return {element(2 * t, g), element(2 * t + 1, g)}; // .trans
}

TEST(Fragments, LdmatrixGivesMmaOperands) {
  for (bool depthIsMinor : {true, false})
    for (int64_t lane = 0; lane < 32; ++lane)
      for (int64_t reg = 0; reg < 4; ++reg) {
        const int64_t g = lane / 4, t = lane % 4;
        const int64_t row = g + 8 * (reg % 2), rowDepth = 2 * t + 8 * (reg / 2);
        const int64_t column = g + 8 * (reg / 2), columnDepth = 2 * t + 8 * (reg % 2);
        const auto left = std::pair(id(row, rowDepth), id(row, rowDepth + 1));
        const auto right = std::pair(id(column, columnDepth), id(column, columnDepth + 1));
        EXPECT_EQ(loaded(Side::left, depthIsMinor, lane, reg), left);
        EXPECT_EQ(loaded(Side::right, depthIsMinor, lane, reg), right);
      }
}

} // namespace
} // namespace tilewright::layout
