#include "autotune/standings.h"

#include <algorithm>

#include "autotune/measure.h"

namespace tilewright {

void Standings::add(const std::vector<MeasuredConfiguration> &race) {
  std::vector<double> drifts;
  for (const MeasuredConfiguration &now : race)
    if (const MeasuredConfiguration *before = find(now.configuration); before && before->milliseconds > 0)
      drifts.push_back(now.milliseconds / before->milliseconds);
  if (!drifts.empty())
    for (MeasuredConfiguration &earlier : measured_)
      for (double *time : {&earlier.milliseconds, &earlier.spread.least, &earlier.spread.most})
        *time *= median(drifts);
  for (const MeasuredConfiguration &now : race)
    if (const MeasuredConfiguration *before = find(now.configuration))
      measured_[before - measured_.data()] = now;
    else
      measured_.push_back(now);
}

const MeasuredConfiguration *Standings::find(const Configuration &configuration) const {
  for (const MeasuredConfiguration &measured : measured_)
    if (measured.configuration == configuration) return &measured;
  return nullptr;
}

const MeasuredConfiguration *Standings::best() const {
  const auto fastest = std::min_element(measured_.begin(), measured_.end(), [](const auto &a, const auto &b) {
    return a.milliseconds < b.milliseconds;
  });
  return fastest == measured_.end() ? nullptr : &*fastest;
}

} // namespace tilewright
