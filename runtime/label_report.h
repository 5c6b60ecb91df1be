#pragma once

#include <cstdint>

#include "compiler/base/status.h"

namespace tilewright {

/// How a kernel reports a label that is no class, which only the device finds out: it writes these i64 words
/// to `Device::labelReport`, in any order. All zero: nothing to report.
enum LabelReportWord {
  kReportedPlace, ///< the row, plus 1
  kReportedLabel,
  kReportedClasses,
  kReportedIgnoreIndex,
  kReportedCheck, ///< the sum of the others, modulo 2^64: no word is of another kernel's report
  kLabelReportWords
};

/// A user error that names the row and the label.
Status labelError(int64_t row, int64_t label, int64_t classes, int64_t ignoreIndex);

/// The error of a report, which is thereby cleared; ok when there is none. Kernels may write meanwhile:
/// whatever they report comes with this call or stays for the next.
Status takeLabelReport(int64_t *words);

} // namespace tilewright
