#include "runtime/label_report.h"

#include <chrono>

namespace tilewright {
namespace {

// A kernel that has written one word writes the others within far less.
constexpr auto kWholeWithin = std::chrono::milliseconds(10);

bool isWhole(const uint64_t (&words)[kLabelReportWords]) {
  return words[kReportedCheck] == words[kReportedPlace] + words[kReportedLabel] + words[kReportedClasses] +
                                      words[kReportedIgnoreIndex];
}

} // namespace

Status labelError(int64_t row, int64_t label, int64_t classes, int64_t ignoreIndex) {
  return userError("label " + std::to_string(label) + " in row " + std::to_string(row) +
                   " is no class: expected 0 to " + std::to_string(classes - 1) + ", or the ignore index " +
                   std::to_string(ignoreIndex));
}

Status takeLabelReport(int64_t *words) {
  // Taken before the rest is read: a report that begins later finds the place empty and stays.
  const int64_t place = __atomic_exchange_n(&words[kReportedPlace], 0, __ATOMIC_ACQ_REL);
  if (place == 0) return {};
  uint64_t found[kLabelReportWords] = {static_cast<uint64_t>(place)};
  const auto begin = std::chrono::steady_clock::now();
  do {
    for (int word = kReportedLabel; word < kLabelReportWords; ++word)
      found[word] = __atomic_load_n(&words[word], __ATOMIC_ACQUIRE);
    if (isWhole(found))
      return labelError(place - 1, static_cast<int64_t>(found[kReportedLabel]),
                        static_cast<int64_t>(found[kReportedClasses]),
                        static_cast<int64_t>(found[kReportedIgnoreIndex]));
  } while (std::chrono::steady_clock::now() - begin < kWholeWithin);
  return userError("labels in several calls at once are no classes, one of them in row " +
                   std::to_string(place - 1) + "; expected classes from 0, or the ignore index");
}

} // namespace tilewright
