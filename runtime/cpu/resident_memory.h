#pragma once

#include <cstdint>

namespace tilewright {

/// Memory of this process that is resident, in bytes, as Linux counts it; 0 where it does not say.
int64_t residentBytes();

/// The most that was resident since the start, or since the last `resetPeakResident`.
int64_t peakResidentBytes();
void resetPeakResident();

} // namespace tilewright
