#include "compiler/check_options.h"

namespace tilewright {
namespace {

constexpr int64_t kLargestStep = 4096; ///< of a CPU, whose packed operands grow with it
constexpr int64_t kMostStages = 16, kMostWarps = 32, kMostRasterRows = 65535;
constexpr int kMostPartners = 8; ///< CTAs of a cluster that every chip with clusters can run
constexpr int kFirstWithClusters = 90;

Status unexpected(const char *option, const std::string &expected, int64_t found) {
  return userError(std::string(option) + ": expected " + expected + ", found " + std::to_string(found));
}

Status checkRange(const char *option, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return {};
  return unexpected(option, std::to_string(low) + " to " + std::to_string(high), value);
}

Status checkRows(const Schedule &schedule) {
  for (const auto &[option, value] :
       {std::pair{"rowBlock", schedule.rowBlock}, std::pair{"rowUnroll", int64_t(schedule.rowUnroll)},
        std::pair{"rowBytes", schedule.rowBytes}})
    if (value < 0) return unexpected(option, "0 or more", value);
  return checkRange("rowPartners", schedule.rowPartners, 1, kMostPartners);
}

/// Partners are CTAs along the grid's second axis.
Status checkPartners(const Schedule &schedule, const Target &target, std::size_t gridAxes) {
  if (schedule.rowPartners == 1) return {};
  if (target.capability() < kFirstWithClusters)
    return unexpected("rowPartners", "1 on a target without clusters, which are there from sm_90 on",
                      schedule.rowPartners);
  if (gridAxes < 2) return {};
  return unexpected("rowPartners", "1 in a kernel whose grid has two axes", schedule.rowPartners);
}

Status checkGpu(const Schedule &schedule, const Target &target) {
  const int64_t step = schedule.contractionStep;
  if (step != 0 && step != 32 && step != 64)
    return unexpected("contractionStep", "0, 32 or 64 on a GPU", step);
  TW_RETURN_IF_ERROR(checkRange("stages", schedule.stages, 0, kMostStages));
  TW_RETURN_IF_ERROR(checkRange("warps", schedule.warps, 0, kMostWarps));
  if (schedule.warps & (schedule.warps - 1))
    return unexpected("warps", "0 or a power of two", schedule.warps);
  TW_RETURN_IF_ERROR(checkRange("rasterRows", schedule.rasterRows, 0, kMostRasterRows));
  TW_RETURN_IF_ERROR(checkRange("clusterCtas", schedule.clusterCtas, 0, 2));
  if (schedule.clusterCtas == 2 && target.capability() < kFirstWithClusters)
    return unexpected("clusterCtas", "0 or 1 on a target without clusters, which are there from sm_90 on",
                      schedule.clusterCtas);
  return {};
}

} // namespace

Status checkOptions(const Target &target, const CompileOptions &options, std::size_t gridAxes) {
  const Schedule &schedule = options.schedule;
  TW_RETURN_IF_ERROR(checkRange("optLevel", options.optLevel, 0, 3));
  TW_RETURN_IF_ERROR(checkRows(schedule));
  TW_RETURN_IF_ERROR(checkPartners(schedule, target, gridAxes));
  if (target.kind == TargetKind::nvptx) return checkGpu(schedule, target);
  return checkRange("contractionStep", schedule.contractionStep, 0, kLargestStep);
}

} // namespace tilewright
