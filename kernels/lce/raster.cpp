#include <algorithm>
#include <numeric>

#include "kernels/lce/tiling.h"

namespace tilewright::lce {

int chooseRaster(const Product &product, const ProductShape &shape, int64_t numberBytes, bool stored,
                 const DeviceInfo &device) {
  constexpr int64_t kMostRows = 64;
  constexpr double kReadAgain = 1.0 / 8; // of a strip that stays in the cache, an eighth and more on an H200
  const auto [rows, columns, depth] = shape;
  const Block &block = product.block;
  // Both halves of Hopper's cache keep copies, which leaves strips about half of it; stores take their share.
  constexpr double kShareBesideStores = 1.0 / 3, kShare = 0.54;
  const auto cached =
      static_cast<int64_t>((stored ? kShareBesideStores : kShare) * static_cast<double>(device.cacheBytes));
  const int64_t strips = ceilDiv(rows, block.rows), across = ceilDiv(columns, block.columns);
  const int64_t rowStrip = numberBytes * block.rows * depth,
                columnStrips = numberBytes * block.columns * depth * across;
  const int64_t atOnce = device.units * (hasRoles(product) ? 1 : 2); // see choosePortableProduct
  // CTAs of a cluster share the larger of a tile's operands, and count as one here.
  const int64_t cluster = std::max(1, product.clusterCtas), workers = std::max<int64_t>(1, atOnce / cluster);
  const int64_t abreast = block.rows >= block.columns ? cluster : 1, below = cluster / abreast;
  const int64_t perRow = ceilDiv(across, abreast);
  const int64_t waves = ceilDiv(ceilDiv(strips, below) * perRow, workers);

  const auto stays = [&](int64_t raster) { return raster * rowStrip <= cached; };
  // A raster's tiles come one after the other, and those of one of its rows lie in so many waves, on average.
  const auto wavesOfRow = [&](int64_t raster) {
    const int64_t tiles = raster / below * perRow;
    return 1.0 + static_cast<double>(tiles - std::gcd(tiles, workers)) / static_cast<double>(workers);
  };
  const auto bytes = [&](int64_t raster) {
    const double ofRow = wavesOfRow(raster), leftReads = stays(raster) ? 1 + kReadAgain * (ofRow - 1) : ofRow;
    // Several rasters in one wave read the columns together.
    const int64_t rightReads = columnStrips <= cached ? 1 : std::min(ceilDiv(strips, raster), waves);
    return static_cast<double>(strips * rowStrip) * leftReads +
           static_cast<double>(columnStrips * rightReads);
  };
  const auto isCandidate = [&](int64_t raster) {
    if (stays(raster) && raster == strips) return true;
    if (atOnce % raster) return false;
    return !stays(raster) || workers % (raster / below) == 0; // waves of whole columns
  };
  int64_t best = below;
  double fewest = bytes(best);
  for (int64_t raster = 2 * below; raster <= std::min(strips, kMostRows); raster += below)
    if (isCandidate(raster))
      if (const double read = bytes(raster); read <= fewest) best = raster, fewest = read;
  return static_cast<int>(best);
}

} // namespace tilewright::lce
