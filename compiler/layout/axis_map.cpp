#include "compiler/layout/axis_map.h"

#include <algorithm>

#include "compiler/base/integers.h"

namespace tilewright::layout {

namespace {

/// Both operands are loaded from shared memory 16 positions at a time.
constexpr int64_t kFragment = 16;
constexpr int64_t kAccumulator = 8; ///< rows and columns in steps of which accumulators lie

} // namespace

int64_t AxisMap::position(int64_t thread, std::size_t reg) const {
  int64_t position = offsets[reg];
  for (const ThreadBit &bit : bits)
    position += (thread >> bit.bit & 1) * bit.stride;
  return position;
}

int64_t AxisMap::span() const { return position(threadMask(), offsets.size() - 1) + 1; }

int64_t AxisMap::threadMask() const {
  int64_t mask = 0;
  for (const ThreadBit &bit : bits)
    mask |= int64_t(1) << bit.bit;
  return mask;
}

bool operator==(const AxisMap &a, const AxisMap &b) {
  auto sameBit = [](const ThreadBit &x, const ThreadBit &y) {
    return x.bit == y.bit && x.stride == y.stride;
  };
  return a.extent == b.extent && a.run == b.run && a.offsets == b.offsets &&
         std::equal(a.bits.begin(), a.bits.end(), b.bits.begin(), b.bits.end(), sameBit);
}

AxisMap blockedMap(int64_t extent, const std::vector<int> &bits, int64_t run) {
  AxisMap map{extent, run, {}, {}};
  int64_t stride = run;
  for (int bit : bits) {
    map.bits.push_back({bit, stride});
    stride *= 2;
  }
  for (int64_t begin = 0; begin < extent; begin += stride)
    for (int64_t i = 0; i < run; ++i)
      map.offsets.push_back(begin + i);
  return map;
}

int64_t warpStretch(int64_t extent, std::size_t warpBits) {
  return roundUp(ceilDiv(extent, int64_t(1) << warpBits), kFragment);
}

static void addWarps(AxisMap &map, const std::vector<int> &warpBits, int64_t stretch) {
  for (std::size_t i = 0; i < warpBits.size(); ++i)
    map.bits.push_back({warpBits[i], stretch << i});
}

// Of a 16×8 accumulator, thread l of a warp holds rows l/4 and l/4 + 8 of columns 2(l%4) and 2(l%4) + 1.

AxisMap accumulatorRows(int64_t extent, const std::vector<int> &warpBits) {
  AxisMap map{extent, 1, {{2, 1}, {3, 2}, {4, 4}}, {}};
  const int64_t stretch = warpStretch(extent, warpBits.size());
  addWarps(map, warpBits, stretch);
  for (int64_t begin = 0; begin < stretch; begin += kAccumulator)
    map.offsets.push_back(begin);
  return map;
}

AxisMap warpgroupRows(int64_t extent, int groupBits) {
  AxisMap map{extent, 1, {{2, 1}, {3, 2}, {4, 4}, {5, 16}, {6, 32}}, {}};
  for (int bit = 0; bit < groupBits; ++bit)
    map.bits.push_back({7 + bit, int64_t(64) << bit});
  for (int64_t begin = 0; begin < extent; begin += int64_t(64) << groupBits)
    map.offsets.insert(map.offsets.end(), {begin, begin + kAccumulator});
  return map;
}

static AxisMap columnsOf(int64_t extent, const std::vector<int> &bits, int64_t stretch) {
  AxisMap map{extent, 2, {{0, 2}, {1, 4}}, {}};
  addWarps(map, bits, stretch);
  for (int64_t begin = 0; begin < stretch; begin += kAccumulator)
    map.offsets.insert(map.offsets.end(), {begin, begin + 1});
  return map;
}

AxisMap accumulatorColumns(int64_t extent, const std::vector<int> &warpBits) {
  return columnsOf(extent, warpBits, warpStretch(extent, warpBits.size()));
}

AxisMap warpgroupColumns(int64_t extent, const std::vector<int> &groupBits) {
  const int64_t columns = ceilDiv(extent, int64_t(1) << groupBits.size());
  return columnsOf(extent, groupBits, roundUp(columns, kAccumulator));
}

} // namespace tilewright::layout
