#include "kernels/row_schedule.h"
#include "kernels/ce/kernels.h"

namespace tilewright::ce {
namespace {

bool readsTwice(const RowSpec &spec) { return spec.gradient || spec.outputs.best || spec.outputs.entropy; }

} // namespace

std::string RowSchedule::str() const {
  const Schedule &schedule = options.schedule;
  if (schedule.rowBytes == 0) return "one row a program";
  if (schedule.rowPartners == 1) return "one row a program, on chip";
  return "one row a cluster of " + std::to_string(schedule.rowPartners) + " CTAs, on chip";
}

RowSchedule scheduleRow(const RowSpec &spec, int64_t classes, const Target &target, int64_t sharedBytes) {
  RowSchedule result;
  if (!readsTwice(spec)) return result;
  const auto schedule = rowOnChip(classes * elementBytes(spec.element), spec.element, target, sharedBytes);
  if (schedule) result.options.schedule = *schedule;
  return result;
}

} // namespace tilewright::ce
