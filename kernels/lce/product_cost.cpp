// What products cost on a GPU that nothing was measured on, in multiply-adds of a multiprocessor.

#include <utility>

#include "kernels/lce/tiling.h"

namespace tilewright::lce {
namespace {

using Roles = Schedule::WarpRoles;

// Two launches more take an H200 as long as so many multiply-adds of a multiprocessor, some 40 µs.
constexpr double kTwoLaunches = 1e8;

/// Time of a tile for each step of its depth, in multiply-adds: its own, and the copies of its rows and
/// columns.
double tileTime(const Product &product) {
  constexpr double kCopyCost =
      20; // multiply-adds in the time of one number, when copies hide behind products
  constexpr double kUnshared = 1.03; // of tiles that warpgroups share, without a pair that shares an operand
  const Block &block = product.block;
  const double time = static_cast<double>(block.rows * block.columns) +
                      kCopyCost * static_cast<double>(block.rows + block.columns);
  return product.roles == Roles::cooperative && product.clusterCtas == 1 ? kUnshared * time : time;
}

// ---- dX's last rows ----------------------------------------------------------------------------------

/// A product's tiles, as clusters of multiprocessors take them: each so many side by side.
struct Tiles {
  int64_t strips, across, workers;

  Tiles(const Product &product, const ClusterShape &cluster, const ProductShape &shape, int units)
      : strips(ceilDiv(shape.rows, product.block.rows * cluster.below)),
        across(ceilDiv(shape.columns, product.block.columns * cluster.abreast)),
        workers(std::max<int64_t>(1, units / (cluster.below * cluster.abreast))) {}

  /// One after the other, with each tile cut into parts of its depth.
  double rounds(int64_t parts = 1) const {
    return static_cast<double>(ceilDiv(strips * across * parts, workers)) / static_cast<double>(parts);
  }
};

/// What a product takes of all multiprocessors, in tiles one after the other.
struct TailCost {
  Tail tail;
  double rounds;
};

/// Rounds of the first `head` rows, and of parts of the others. Clusters of the latter are abreast: tiles
/// below one another may be of different parts.
double roundsWithTail(const Product &product, const ProductShape &shape, int64_t head, int64_t parts,
                      const DeviceInfo &device) {
  ClusterShape abreast(product);
  abreast.abreast *= std::exchange(abreast.below, 1);
  const ProductShape first{head, shape.columns, shape.depth},
      last{shape.rows - head, shape.columns, shape.depth};
  return Tiles(product, ClusterShape(product), first, device.units).rounds() +
         Tiles(product, abreast, last, device.units).rounds(parts);
}

/// The last strips of rows whose parts fill the multiprocessors better than whole tiles do.
TailCost cheapestTail(const Product &product, const ProductShape &shape, const DeviceInfo &device,
                      int64_t mostBytes) {
  constexpr int64_t kMostParts = 16;
  constexpr double kPerByte = 1.3; // what the parts write is read once, at 4 TB/s
  const ClusterShape cluster(product);
  const Tiles tiles(product, cluster, shape, device.units);
  const double tile = static_cast<double>(product.block.rows * product.block.columns * shape.depth);
  TailCost best{{}, tiles.rounds()};
  const int64_t full = tiles.strips * tiles.across / tiles.workers; // rounds
  for (const int64_t whole : {full, full - 1}) {
    const int64_t head = whole * tiles.workers / tiles.across * cluster.below * product.block.rows;
    if (whole < 0 || head >= shape.rows) continue;
    const int64_t rows = roundUp(shape.rows - head, product.block.rows);
    for (int64_t parts = 2; parts <= kMostParts; ++parts) {
      const int64_t bytes = 4 * parts * rows * shape.columns;
      const double cost = roundsWithTail(product, shape, head, parts, device) +
                          (kTwoLaunches + kPerByte * static_cast<double>(bytes)) / tile;
      if (bytes <= mostBytes && cost < best.rounds) best = {{head, parts}, cost};
    }
  }
  return best;
}

/// What so many rows of a chunk take of dX, with its tail.
double hiddenRounds(const Scheme &scheme, const Config &config, int64_t rows, const DeviceInfo &device) {
  const ProductShape shape{rows, scheme.hidden, scheme.classes};
  const bool hasTail = config.hasTail() && rows > config.tail.begin;
  return roundsWithTail(config.dHidden, shape, hasTail ? config.tail.begin : rows, config.tail.parts, device);
}

} // namespace

void chooseTail(const Scheme &scheme, const DeviceInfo &device, Config &config) {
  config.tail = {};
  if (!scheme.dHidden || !hasRoles(config.dHidden)) return;
  const ProductShape shape = shapeOf(scheme, ProductKind::dHidden, config);
  config.tail = cheapestTail(config.dHidden, shape, device, config.tailBytes).tail;
}

double roundsOf(ProductKind kind, const Product &product, const ProductShape &shape, const DeviceInfo &device,
                int64_t tailBytes) {
  if (kind == ProductKind::dHidden && hasRoles(product))
    return cheapestTail(product, shape, device, tailBytes).rounds;
  return Tiles(product, ClusterShape(product), shape, device.units).rounds();
}

double productTime(ProductKind kind, const Product &product, const ProductShape &shape,
                   const DeviceInfo &device, int64_t tailBytes) {
  return roundsOf(kind, product, shape, device, tailBytes) * tileTime(product) *
         static_cast<double>(shape.depth);
}

double chunkTime(const Scheme &scheme, const Config &config, ProductKind kind, int64_t rows,
                 const DeviceInfo &device) {
  if (rows == 0) return 0;
  if (kind == ProductKind::dHidden)
    return hiddenRounds(scheme, config, rows, device) * tileTime(config.dHidden) *
           static_cast<double>(scheme.classes);
  Config chunk = config;
  chunk.chunkRows = rows;
  return productTime(kind, config[kind], shapeOf(scheme, kind, chunk), device);
}

double chunksCost(const Scheme &scheme, const Config &config, const DeviceInfo &device) {
  // An H200 adds a number of a chunk's dW to what is there in the time of so many multiply-adds of a
  // multiprocessor, in which it is hidden least.
  constexpr double kAdding = 3.5;
  const auto ofRows = [&](int64_t rows) {
    return chunkTime(scheme, config, ProductKind::forward, rows, device) +
           (scheme.dHidden ? chunkTime(scheme, config, ProductKind::dHidden, rows, device) : 0);
  };
  const bool adds = scheme.dWeight && config.weightParts(scheme) > 1;
  const double numbers = static_cast<double>(scheme.classes) * static_cast<double>(scheme.hidden);
  const double beside = 3 * kTwoLaunches + (adds ? kAdding * numbers : 0);
  return static_cast<double>(scheme.rows / config.chunkRows) * ofRows(config.chunkRows) +
         ofRows(scheme.rows % config.chunkRows) + static_cast<double>(config.chunks(scheme)) * beside;
}

double secondPassCost(const Scheme &scheme, const Config &config, const DeviceInfo &device) {
  const auto ofSlices = [&](int64_t classes) {
    const auto timeOf = [&](ProductKind kind) {
      return productTime(kind, config[kind], shapeOf(scheme, kind, config, classes), device);
    };
    const int64_t parts = scheme.dWeight ? ceilDiv(scheme.hidden, config.weightColumns(scheme, classes)) : 0;
    // Beside either product there is one that makes small things: labels as a slice has them, and u.
    return timeOf(ProductKind::again) + kTwoLaunches +
           static_cast<double>(parts) * (timeOf(ProductKind::dWeight) + kTwoLaunches);
  };
  const int64_t borrowed = config.borrowedSlices(scheme);
  const int64_t others = ceilDiv(scheme.classes - borrowed * config.borrowedClasses, config.sliceClasses);
  return (borrowed ? static_cast<double>(borrowed) * ofSlices(config.borrowedClasses) : 0) +
         static_cast<double>(others) * ofSlices(config.sliceClasses);
}

} // namespace tilewright::lce
