#include <algorithm>
#include <limits>

#include "kernels/lce/estimate.h"
#include "kernels/lce/plan.h"
#include "kernels/lce/tensors.h"

namespace tilewright::lce {
namespace {

// Products of so many classes keep any device busy, and u has a row for each.
constexpr int64_t kMostSliced = 16 << 10;

/// Slices of the classes for a second pass after `chunks`, all about alike: of those that are worth their
/// memory and fit, the ones that take the least time. Slices below half of the largest that fits never
/// balance better.
Config inSlices(const Scheme &scheme, const Config &chunks, int64_t workspaceLimit,
                const DeviceInfo &device) {
  const int64_t unit = chunks.sliceClasses, units = ceilDiv(scheme.classes, unit);
  const auto alike = [&](int64_t most) { return ceilDiv(units, ceilDiv(units, most)); };
  const int64_t unitBytes = saturatingProduct(std::max<int64_t>(scheme.rows, 1),
                                              unit * static_cast<int64_t>(elementBytes(scheme.exponentials)));
  Config best = chunks;
  double least = std::numeric_limits<double>::infinity();
  int64_t largest = 0; // that fits
  const int64_t most = std::min({chunkBytes(device) / unitBytes, kMostSliced / unit, units});
  for (int64_t size = alike(std::max<int64_t>(most, 1)); size > 0 && 2 * size > largest;
       size = size > 1 ? alike(size - 1) : 0) {
    Config config = chunks;
    config.sliceClasses = size * unit;
    if (workspaceLimit > 0 && workspaceBytes(scheme, config) > workspaceLimit) continue;
    chooseProducts(scheme, {ProductKind::again, ProductKind::dWeight}, device, config);
    largest = std::max(largest, size);
    const double cost = secondPassSeconds(scheme, config, device);
    if (cost < least) best = config, least = cost;
  }
  return best;
}

/// Larger slices beside those in the workspace, in what of dW's memory lies behind their rows, where that
/// takes less time.
Config withBorrowedSlices(const Scheme &scheme, const Config &narrow, const DeviceInfo &device) {
  const int64_t unit = narrow.forward.block.columns;
  double least = secondPassSeconds(scheme, narrow, device);
  Config best = narrow, config = narrow;
  for (int64_t size = narrow.sliceClasses / unit + 1; size * unit <= kMostSliced; ++size) {
    config.borrowedClasses = size * unit;
    if (config.borrowedSlices(scheme) == 0) break; // nor would larger ones find room
    if (const double cost = secondPassSeconds(scheme, config, device); cost < least)
      best = config, least = cost;
  }
  if (best.borrowedClasses) chooseProducts(scheme, {ProductKind::again, ProductKind::dWeight}, device, best);
  return best;
}

/// E of as many classes as dW's memory holds while it is not written, but for what were less than a quarter
/// of a slice: all rows' logits of these are not computed again.
Config withKeptSlices(const Scheme &scheme, Config config) {
  if (!scheme.keepsExponentials || scheme.borrowedBytes == 0) return config;
  const int64_t unit = config.forward.block.columns, slice = keptSlice(scheme, config);
  const int64_t ofChunk = borrowsChunk(scheme, config.chunkRows)
                              ? bytesOfE(scheme, std::min(config.chunkRows, scheme.rows), scheme.classes)
                              : 0;
  Config kept = config;
  do { // behind a chunk's E, and behind dW of these when it is made
    config.keptClasses = kept.keptClasses;
    kept.keptClasses += unit;
  } while (std::max(ofChunk, kept.keptClasses * scheme.classBytes()) <=
           borrowedBegin(scheme, bytesOfE(scheme, scheme.rows, kept.keptClasses)));
  if (const int64_t rest = config.keptClasses % slice; 4 * rest < slice) config.keptClasses -= rest;
  return config;
}

} // namespace

Config withSlices(const Scheme &scheme, const Config &chunks, int64_t workspaceLimit,
                  const DeviceInfo &device) {
  const Config own = inSlices(scheme, chunks, workspaceLimit, device);
  return withKeptSlices(scheme, withBorrowedSlices(scheme, own, device));
}

} // namespace tilewright::lce
