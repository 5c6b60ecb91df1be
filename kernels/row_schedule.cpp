#include "kernels/row_schedule.h"

namespace tilewright {
namespace {

constexpr int64_t kWarpBytes = 32 * 16;    ///< that a warp moves by one access of each thread
constexpr int64_t kShortRow = 4 << 10;     ///< bytes
constexpr int64_t kPart = 32 << 10;        ///< bytes of a row in one CTA, so that six share a multiprocessor
constexpr int64_t kLargestPart = 72 << 10; ///< bytes: fewer than three CTAs a multiprocessor gain nothing
constexpr int64_t kWarpPart =
    8 << 10; ///< bytes of a row for one warp: with less, warps wait longer than they work
constexpr int kMostWarps = 8;
constexpr int kMostPartners = 8; ///< CTAs of a cluster that every device with clusters can run

constexpr int kFirstWithClusters = 90;

} // namespace

std::optional<Schedule> rowOnChip(int64_t rowBytes, ElementType element, const Target &target,
                                  int64_t sharedBytes) {
  if (target.kind != TargetKind::nvptx || rowBytes < kShortRow) return {};
  int partners = 1;
  const bool hasClusters = target.capability() >= kFirstWithClusters;
  while (hasClusters && partners < kMostPartners && rowBytes > kPart * partners)
    partners *= 2;
  const int64_t part = (rowBytes + partners - 1) / partners;
  if (part > kLargestPart) return {};

  Schedule schedule;
  schedule.warps = 1;
  while (schedule.warps < kMostWarps && part > kWarpPart * schedule.warps)
    schedule.warps *= 2;
  schedule.rowUnroll = part > kWarpPart ? 2 : 1;
  schedule.rowBlock = schedule.warps * kWarpBytes / elementBytes(element);
  schedule.rowPartners = partners;
  const int64_t blockBytes = schedule.warps * kWarpBytes * schedule.rowUnroll;
  schedule.rowBytes = (rowBytes / blockBytes + partners - 1) / partners * blockBytes;
  constexpr int64_t kExchanged = 2 << 10; // for everything else
  if (schedule.rowBytes + kExchanged > sharedBytes) return {};
  return schedule;
}

} // namespace tilewright
