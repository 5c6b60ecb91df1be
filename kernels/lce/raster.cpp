#include <algorithm>
#include <numeric>

#include "kernels/lce/tiling.h"

namespace tilewright::lce {

namespace {

/// How often strips of both operands come from memory.
class StripReads {
public:
  StripReads(const Product &product, const ProductShape &shape, int64_t numberBytes, bool stored,
             const DeviceInfo &device)
      : cluster_(product), atOnce_(device.units * (hasRoles(product) ? 1 : 2)), // see choosePortableProduct
        workers_(std::max<int64_t>(1, atOnce_ / (cluster_.below * cluster_.abreast))),
        strips_(ceilDiv(shape.rows, product.block.rows)),
        rowStrip_(numberBytes * product.block.rows * shape.depth) {
    // Both halves of Hopper's cache keep copies, which leaves strips about half of it; stores take their
    // share.
    constexpr double kShareBesideStores = 1.0 / 3, kShare = 0.54;
    cached_ =
        static_cast<int64_t>((stored ? kShareBesideStores : kShare) * static_cast<double>(device.cacheBytes));
    const int64_t across = ceilDiv(shape.columns, product.block.columns);
    columnStrips_ = numberBytes * product.block.columns * shape.depth * across;
    perRow_ = ceilDiv(across, cluster_.abreast);
    waves_ = ceilDiv(ceilDiv(strips_, cluster_.below) * perRow_, workers_);
  }

  /// CTAs of a cluster share the larger of a tile's operands, and count as one here.
  const ClusterShape &cluster() const { return cluster_; }
  int64_t strips() const { return strips_; }
  int64_t perRow() const { return perRow_; } ///< tiles, or clusters, of a row of them

  double bytes(int64_t raster) const {
    constexpr double kReadAgain =
        1.0 / 8; // of a strip that stays in the cache, an eighth and more on an H200
    const double ofRow = wavesOfRow(raster), leftReads = stays(raster) ? 1 + kReadAgain * (ofRow - 1) : ofRow;
    // Several rasters in one wave read the columns together.
    const int64_t rightReads = columnStrips_ <= cached_ ? 1 : std::min(ceilDiv(strips_, raster), waves_);
    return static_cast<double>(strips_ * rowStrip_) * leftReads +
           static_cast<double>(columnStrips_ * rightReads);
  }

  bool isCandidate(int64_t raster) const {
    if (stays(raster) && raster == strips_) return true;
    if (atOnce_ % raster) return false;
    return !stays(raster) || workers_ % (raster / cluster_.below) == 0; // waves of whole columns
  }

private:
  bool stays(int64_t raster) const { return raster * rowStrip_ <= cached_; }

  /// A raster's tiles come one after the other, and those of one of its rows lie in so many waves, on
  /// average.
  double wavesOfRow(int64_t raster) const {
    const int64_t tiles = raster / cluster_.below * perRow_;
    return 1.0 + static_cast<double>(tiles - std::gcd(tiles, workers_)) / static_cast<double>(workers_);
  }

  ClusterShape cluster_;
  int64_t atOnce_, workers_, strips_, rowStrip_;
  int64_t cached_, columnStrips_, perRow_, waves_;
};

/// Neighbours of a GPC that all share rows ask for many columns, so tiles that are wide by themselves or by
/// their cluster are not walked in single rows, unless a row has few of them. An H200 took 15.7 ms for dX of
/// 8192×2880×201088 in clusters abreast in one row of tiles at a time, and 13.8 to 14.1 in 4 to 16; for dW of
/// 8192×3072×32064 in tiles of 128×192 2.61 in one row, and 2.45 in 6 (product_bench, 2026-11-27).
int64_t fewestRows(const Product &product, const StripReads &reads) {
  constexpr int64_t kOfClusters = 4, kOfWideTiles = 6, kFewInRow = 3;
  const ClusterShape &cluster = reads.cluster();
  if (cluster.abreast > 1) return kOfClusters;
  const bool isWide = product.block.columns > product.block.rows && reads.perRow() > kFewInRow;
  return cluster.below == 1 && isWide ? kOfWideTiles : cluster.below;
}

} // namespace

// Of rasters that read alike the one of the fewest rows: of a narrow result each wave has whole rows of tiles
// in all of them, and in a short one those that share a row are neighbours. An H200 takes 65536×576×49152 in
// 0.977 of the time with dX and dW in rasters of 1 or 2 rows in place of 44, 32768×768×50257 in 0.984 with 11
// and 2 in place of 33 and 44 (MEASUREMENTS.md).
int chooseRaster(const Product &product, const ProductShape &shape, int64_t numberBytes, bool stored,
                 const DeviceInfo &device) {
  constexpr int64_t kMostRows = 64;
  const StripReads reads(product, shape, numberBytes, stored, device);
  const int64_t below = reads.cluster().below;
  int64_t best = std::max(below, std::min(reads.strips(), fewestRows(product, reads)));
  double fewest = reads.bytes(best);
  for (int64_t raster = best + below; raster <= std::min(reads.strips(), kMostRows); raster += below)
    if (reads.isCandidate(raster))
      if (const double bytes = reads.bytes(raster); bytes < fewest) best = raster, fewest = bytes;
  return static_cast<int>(best);
}

double operandBytes(const Product &product, const ProductShape &shape, int64_t numberBytes, bool stored,
                    const DeviceInfo &device) {
  return StripReads(product, shape, numberBytes, stored, device).bytes(std::max(1, product.rasterRows));
}

} // namespace tilewright::lce
