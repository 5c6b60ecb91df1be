#pragma once

#include <vector>

#include "autotune/tuning_record.h"

namespace tilewright {

/// The configurations measured so far, their times comparable although they were taken in several races.
class Standings {
public:
  /// The results of one race. A device may be slower now than it was in an earlier race: who ran in both says
  /// by how much, and all earlier times are scaled by that.
  void add(const std::vector<MeasuredConfiguration> &race);

  const std::vector<MeasuredConfiguration> &all() const { return measured_; }
  const MeasuredConfiguration *find(const Configuration &configuration) const; ///< null when not measured
  const MeasuredConfiguration *best() const;                                   ///< null when there is none

private:
  std::vector<MeasuredConfiguration> measured_; ///< in the order of their first measurement
};

} // namespace tilewright
