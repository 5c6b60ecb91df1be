#include "autotune/cache_flush.h"

namespace tilewright {

StatusOr<CacheFlush> CacheFlush::make(Device &device, Stream stream, int64_t workingSetBytes) {
  CacheFlush flush;
  const int64_t bytes = 2 * device.lastCacheBytes();
  if (workingSetBytes >= bytes) return flush;
  TW_ASSIGN_OR_RETURN(flush.scratch_, device.allocate(bytes, stream));
  // The first touch of memory takes longer than later ones.
  TW_RETURN_IF_ERROR(device.fill(flush.scratch_.data(), 0, bytes, stream));
  TW_ASSIGN_OR_RETURN(flush.milliseconds_, device.time(stream, [&] { return flush.run(device, stream); }));
  return flush;
}

Status CacheFlush::run(Device &device, Stream stream) const {
  // A copy, since all cores of a CPU take part in it and so lose what is in their own caches, too.
  const std::size_t half = scratch_.bytes() / 2;
  char *data = static_cast<char *>(scratch_.data());
  return device.copy(data, data + half, half, stream);
}

} // namespace tilewright
