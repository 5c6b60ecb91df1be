#include "kernels/ce/kernels.h"

namespace tilewright::ce {
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

bool readsTwice(const RowSpec &spec) { return spec.gradient || spec.outputs.best || spec.outputs.entropy; }

} // namespace

std::string RowSchedule::str() const {
  const Schedule &schedule = options.schedule;
  if (schedule.rowBytes == 0) return "one row a program";
  if (schedule.rowPartners == 1) return "one row a program, on chip";
  return "one row a cluster of " + std::to_string(schedule.rowPartners) + " CTAs, on chip";
}

RowSchedule scheduleRow(const RowSpec &spec, int64_t classes, const Target &target, int64_t sharedBytes) {
  const int64_t rowBytes = classes * elementBytes(spec.element);
  RowSchedule result;
  if (target.kind != TargetKind::nvptx || !readsTwice(spec) || rowBytes < kShortRow) return result;
  int partners = 1;
  const bool hasClusters = target.capability() >= kFirstWithClusters;
  while (hasClusters && partners < kMostPartners && rowBytes > kPart * partners)
    partners *= 2;
  const int64_t part = (rowBytes + partners - 1) / partners;
  if (part > kLargestPart) return result;

  Schedule schedule;
  schedule.warps = 1;
  while (schedule.warps < kMostWarps && part > kWarpPart * schedule.warps)
    schedule.warps *= 2;
  schedule.rowUnroll = part > kWarpPart ? 2 : 1;
  schedule.rowBlock = schedule.warps * kWarpBytes / elementBytes(spec.element);
  schedule.rowPartners = partners;
  const int64_t blockBytes = schedule.warps * kWarpBytes * schedule.rowUnroll;
  schedule.rowBytes = (rowBytes / blockBytes + partners - 1) / partners * blockBytes;
  constexpr int64_t kExchanged = 2 << 10; // for everything else
  if (schedule.rowBytes + kExchanged <= sharedBytes) result.options.schedule = schedule;
  return result;
}

} // namespace tilewright::ce
