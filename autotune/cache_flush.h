#pragma once

#include <cstdint>

#include "compiler/base/status.h"
#include "runtime/device.h"

namespace tilewright {

/// Makes runs of small work comparable: work whose data fits the device's caches would find there what the
/// run before left, as it does nowhere else.
class CacheFlush {
public:
  /// Does nothing.
  CacheFlush() = default;

  /// For work that reads and writes at least so many bytes. It does nothing where these are twice the
  /// device's last cache, so that nothing of a run's beginning is left at its end, and where the device does
  /// not say how large that cache is.
  static StatusOr<CacheFlush> make(Device &device, Stream stream, int64_t workingSetBytes);

  bool isNeeded() const { return scratch_.bytes() > 0; }
  /// Enqueues work that fills the caches with other data.
  Status run(Device &device, Stream stream) const;
  /// How long that takes; 0 where it is not needed.
  double milliseconds() const { return milliseconds_; }

private:
  Buffer scratch_;
  double milliseconds_ = 0;
};

} // namespace tilewright
