#include "kernels/row_schedule.h"

#include <algorithm>

namespace tilewright {
namespace {

constexpr int64_t kWarpBytes = 32 * 16;    ///< that a warp moves by one access of each thread
constexpr int64_t kShortRow = 4 << 10;     ///< bytes
constexpr int64_t kPart = 32 << 10;        ///< bytes of a row in one CTA, so that six share a multiprocessor
constexpr int64_t kLargestPart = 72 << 10; ///< bytes: fewer than three CTAs a multiprocessor gain nothing
/// Bytes of a row for one warp: with less, warps wait longer than they work. A thread of a heavy kernel has
/// its part of the row as one block, of up to so many vectors (layer norm of 16384×8192 in bf16 on an H200:
/// 2 warps by 2 vectors 3711 GB/s, 4 by 2 3803, 4 by 4 3980, 4 by 8 4083).
constexpr int64_t kWarpPart = 8 << 10, kHeavyWarpPart = 4 << 10;
constexpr int64_t kLightVectors = 2, kHeavyVectors = 8;
constexpr int kMostWarps = 8;
constexpr int kMostPartners = 8; ///< CTAs of a cluster that every device with clusters can run

constexpr int kFirstWithClusters = 90;

} // namespace

std::optional<Schedule> rowOnChip(int64_t rowBytes, ElementType element, const Target &target,
                                  int64_t sharedBytes, RowWork work) {
  if (target.kind != TargetKind::nvptx || rowBytes < kShortRow) return {};
  int partners = 1;
  const bool hasClusters = target.capability() >= kFirstWithClusters;
  while (hasClusters && partners < kMostPartners && rowBytes > kPart * partners)
    partners *= 2;
  const int64_t part = (rowBytes + partners - 1) / partners;
  if (part > kLargestPart) return {};

  Schedule schedule;
  schedule.warps = 1;
  const bool isHeavy = work == RowWork::heavy;
  const int64_t warpPart = isHeavy ? kHeavyWarpPart : kWarpPart;
  while (schedule.warps < kMostWarps && part > warpPart * schedule.warps)
    schedule.warps *= 2;
  if (isHeavy)
    schedule.rowUnroll = std::clamp<int64_t>(part / (schedule.warps * kWarpBytes), 1, kHeavyVectors);
  else
    schedule.rowUnroll = part > kWarpPart ? kLightVectors : 1;
  schedule.rowBlock = schedule.warps * kWarpBytes / elementBytes(element);
  schedule.rowPartners = partners;
  const int64_t blockBytes = schedule.warps * kWarpBytes * schedule.rowUnroll;
  schedule.rowBytes = (rowBytes / blockBytes + partners - 1) / partners * blockBytes;
  constexpr int64_t kExchanged = 2 << 10; // for everything else
  if (schedule.rowBytes + kExchanged > sharedBytes) return {};
  return schedule;
}

} // namespace tilewright
