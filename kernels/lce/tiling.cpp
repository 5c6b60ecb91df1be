// How the products of a scheme are computed on a GPU that nothing was measured on.

#include <algorithm>
#include <numeric>

#include "kernels/lce/tiling.h"

namespace tilewright::lce {
namespace {

using Roles = Schedule::WarpRoles;

/// A loss alone keeps nothing of its product but sums of rows.
bool storesTiles(const Scheme &scheme, ProductKind kind) {
  return kind != ProductKind::forward || scheme.keepsExponentials;
}

// Two warpgroups that share a tile leave the tensor cores idle while they store it. What large tiles save
// is worth that from this depth on.
constexpr int64_t kDeep = 12 << 10;

// Two launches more take an H200 as long as so many multiply-adds of a multiprocessor, some 40 µs.
constexpr double kTwoLaunches = 1e8;

/// Time of a tile for each step of its depth, in multiply-adds: its own, and the copies of its rows and
/// columns.
double tileTime(const Block &block) {
  constexpr double copyCost = 20; // multiply-adds in the time of one number, when copies hide behind products
  return static_cast<double>(block.rows * block.columns) +
         copyCost * static_cast<double>(block.rows + block.columns);
}

// ---- dX's last rows ----------------------------------------------------------------------------------

/// A product's tiles, as clusters of multiprocessors take them: each so many side by side.
struct Tiles {
  int64_t strips, across, workers;

  Tiles(const Product &product, const ProductShape &shape, int units)
      : strips(ceilDiv(shape.rows, product.block.rows)),
        across(ceilDiv(shape.columns, product.block.columns * std::max(1, product.clusterCtas))),
        workers(std::max(1, units / std::max(1, product.clusterCtas))) {}

  /// Of the first `head` strips, and of parts of the others.
  double rounds(int64_t head, int64_t parts) const {
    return static_cast<double>(ceilDiv(head * across, workers)) +
           static_cast<double>(ceilDiv((strips - head) * across * parts, workers)) /
               static_cast<double>(parts);
  }
  double rounds() const { return rounds(strips, 1); }
};

/// What a product takes of all multiprocessors, in tiles one after the other.
struct TailCost {
  Tail tail;
  double rounds;
};

/// The last strips of rows whose parts fill the multiprocessors better than whole tiles do.
TailCost cheapestTail(const Product &product, const ProductShape &shape, const DeviceInfo &device,
                      int64_t mostBytes) {
  constexpr int64_t kMostParts = 8;
  constexpr double kPerByte = 1.3; // what the parts write is read once, at 4 TB/s
  const Tiles tiles(product, shape, device.units);
  const double tile = static_cast<double>(product.block.rows * product.block.columns * shape.depth);
  TailCost best{{}, tiles.rounds()};
  const int64_t full = tiles.strips * tiles.across / tiles.workers; // rounds
  for (const int64_t whole : {full, full - 1}) {
    const int64_t head = whole * tiles.workers / tiles.across, strips = tiles.strips - head;
    if (whole < 0 || strips == 0) continue;
    for (int64_t parts = 2; parts <= kMostParts; ++parts) {
      const int64_t bytes = 4 * parts * strips * product.block.rows * shape.columns;
      const double cost =
          tiles.rounds(head, parts) + (kTwoLaunches + kPerByte * static_cast<double>(bytes)) / tile;
      if (bytes <= mostBytes && cost < best.rounds) best = {{head * product.block.rows, parts}, cost};
    }
  }
  return best;
}

/// What so many rows of a chunk take, with its tail.
double hiddenRounds(const Scheme &scheme, const Config &config, int64_t rows, const DeviceInfo &device) {
  const Tiles tiles(config.dHidden, {rows, scheme.hidden, scheme.classes}, device.units);
  if (!config.hasTail()) return tiles.rounds();
  return tiles.rounds(std::min(tiles.strips, config.tail.begin / config.dHidden.block.rows),
                      config.tail.parts);
}

/// Of an operand's number: where E is fp32 and X is not, of the larger one.
int64_t bytesOf(const Scheme &scheme, ProductKind kind) {
  return static_cast<int64_t>(elementBytes(scheme.operands(kind).first));
}

// ---- Warps with roles --------------------------------------------------------------------------------

/// The order of tiles, and as many stages as fit.
void chooseOrderAndStages(const Scheme &scheme, ProductKind kind, const ProductShape &shape,
                          const DeviceInfo &device, Product &product) {
  const bool stores = storesTiles(scheme, kind);
  product.rasterRows = chooseRaster(product, shape, bytesOf(scheme, kind), stores, device);
  product.stages = stores ? 4 : 5;
  while (product.stages > 3 && sharedBytesOf(scheme, kind, product) > device.sharedBytes)
    --product.stages;
}

/// A deep product whose tiles pairs share: those that read the fewest bytes, unless others leave fewer
/// multiprocessors idle at the end. 192×256 takes 1 to 2 % more than 256×192, for of E less is shared.
Product chooseHiddenProduct(const Scheme &scheme, const ProductShape &shape, const DeviceInfo &device,
                            int64_t tailBytes) {
  constexpr double kWorthwhile = 0.98;
  Product best;
  double bestCost = 0;
  for (const Block &block : {Block{256, 192}, Block{192, 256}, Block{256, 128}, Block{128, 192}}) {
    Product product;
    product.roles = Roles::cooperative;
    product.block = block;
    product.clusterCtas = 2;
    if (accumulatorsOf(block, product.roles) > 128 && !allowsLargeTiles(scheme, ProductKind::dHidden))
      continue;
    const double cost = productTime(ProductKind::dHidden, product, shape, device, tailBytes);
    if (bestCost == 0 || cost < kWorthwhile * bestCost) best = product, bestCost = cost;
  }
  chooseOrderAndStages(scheme, ProductKind::dHidden, shape, device, best);
  return best;
}

/// Logits of which only sums are kept: large tiles that pairs share, where they are so deep that exponentials
/// which no other tile's product hides hardly count.
Product chooseLossProduct(const Scheme &scheme, const ProductShape &shape, const DeviceInfo &device) {
  constexpr int64_t kDeepLogits = 2048;
  constexpr Block kSmall{128, 192}, kLarge{256, 192};
  const auto cost = [&](const Block &block) {
    return productTime(ProductKind::forward, {block}, shape, device);
  };
  const bool isLarge = shape.depth >= kDeepLogits && cost(kLarge) <= cost(kSmall);
  Product product;
  product.block = isLarge ? kLarge : kSmall;
  product.roles = isLarge ? Roles::cooperative : Roles::pingPong;
  // More than sums leaves taking turns no register for a place in a cluster.
  product.clusterCtas = isLarge || scheme.wantsTotalsAlone ? 2 : 1;
  chooseOrderAndStages(scheme, ProductKind::forward, shape, device, product);
  return product;
}

/// Warps with roles for a product. Exponentials, and the many stores of a shallow dW, hide behind
/// another tile's products. Deep ones take the tiles that read the fewest bytes; where few of the largest
/// kind would leave multiprocessors idle at the end, smaller ones. Those share what they copy in pairs.
Product chooseWarpgroupProduct(const Scheme &scheme, ProductKind kind, const ProductShape &shape,
                               const DeviceInfo &device, int64_t tailBytes) {
  if (kind == ProductKind::dHidden) return chooseHiddenProduct(scheme, shape, device, tailBytes);
  if (!storesTiles(scheme, kind)) return chooseLossProduct(scheme, shape, device);
  const bool sparesRegisters = allowsLargeTiles(scheme, kind);
  const bool takesTurns =
      kind != ProductKind::dWeight || (sparesRegisters && (shape.depth < kDeep || shape.depth < scheme.rows));
  const auto cost = [&](const Block &block) { return productTime(kind, {block}, shape, device); };
  Product product;
  product.roles = takesTurns ? Roles::pingPong : Roles::cooperative;
  product.block = {128, 192};
  constexpr Block kLarge{192, 256}; // 256 columns of X, which a pair shares
  if (!takesTurns && cost({256, 128}) <= cost(product.block)) product.block = {256, 128};
  if (!takesTurns && sparesRegisters && cost(kLarge) <= cost(product.block)) product.block = kLarge;
  product.clusterCtas = takesTurns ? 1 : 2;
  chooseOrderAndStages(scheme, kind, shape, device, product);
  return product;
}

/// Two programs of 128 × 128 share a multiprocessor: one multiplies while the other stores. A matrix with
/// fewer rows or columns takes the next power of two.
Product choosePortableProduct(const ProductShape &shape, int64_t numberBytes, const DeviceInfo &device) {
  const auto fit = [](int64_t size, int64_t least, int64_t most) {
    int64_t extent = least;
    while (extent < size && extent < most)
      extent *= 2;
    return extent;
  };
  Product product;
  product.block = {fit(shape.rows, 32, 128), fit(shape.columns, kColumnStep, 128)};
  product.rasterRows = chooseRaster(product, shape, numberBytes, true, device);
  return product;
}

} // namespace

Product chooseProduct(const Scheme &scheme, ProductKind kind, const DeviceInfo &device,
                      const Config &config) {
  const ProductShape shape = shapeOf(scheme, kind, config);
  if (device.sharedBytes == 0) return chooseCpuProduct(scheme, kind, shape, device);
  if (!device.warpgroups || !allowsRoles(scheme, kind))
    return choosePortableProduct(shape, bytesOf(scheme, kind), device);
  return chooseWarpgroupProduct(scheme, kind, shape, device, config.tailBytes);
}

void chooseTail(const Scheme &scheme, const DeviceInfo &device, Config &config) {
  config.tail = {};
  if (!scheme.dHidden || !hasRoles(config.dHidden)) return;
  const ProductShape shape = shapeOf(scheme, ProductKind::dHidden, config);
  config.tail = cheapestTail(config.dHidden, shape, device, config.tailBytes).tail;
}

bool allowsLargeTiles(const Scheme &scheme, ProductKind kind) {
  if (isOfLogits(kind)) return true;
  if (scheme.isUniformRankOne || scheme.terms.margin) return false;
  return kind != ProductKind::dWeight || !scheme.accumulate;
}

int64_t accumulatorsOf(const Block &block, Schedule::WarpRoles roles) {
  return block.rows * block.columns / (roles == Schedule::WarpRoles::cooperative ? 256 : 128);
}

void fitToOptions(const Scheme &scheme, const DeviceInfo &device, Config &config) {
  for (const ProductKind kind : {ProductKind::dHidden, ProductKind::dWeight}) {
    const Product &product = config[kind];
    if (!hasRoles(product) || accumulatorsOf(product.block, product.roles) <= 128) continue;
    if (allowsLargeTiles(scheme, kind)) continue;
    config[kind] =
        chooseWarpgroupProduct(scheme, kind, shapeOf(scheme, kind, config), device, config.tailBytes);
    chooseTail(scheme, device, config);
  }
}

double roundsOf(ProductKind kind, const Product &product, const ProductShape &shape, const DeviceInfo &device,
                int64_t tailBytes) {
  if (kind == ProductKind::dHidden && hasRoles(product))
    return cheapestTail(product, shape, device, tailBytes).rounds;
  const int64_t tiles =
      ceilDiv(shape.rows, product.block.rows) * ceilDiv(shape.columns, product.block.columns);
  return static_cast<double>(ceilDiv(tiles, device.units));
}

double productTime(ProductKind kind, const Product &product, const ProductShape &shape,
                   const DeviceInfo &device, int64_t tailBytes) {
  return roundsOf(kind, product, shape, device, tailBytes) * tileTime(product.block) *
         static_cast<double>(shape.depth);
}

double chunksCost(const Scheme &scheme, const Config &config, const DeviceInfo &device) {
  // An H200 adds a number of a chunk's dW to what is there in the time of so many multiply-adds of a
  // multiprocessor, in which it is hidden least.
  constexpr double kAdding = 3.5;
  const auto ofRows = [&](int64_t rows) {
    const ProductShape logits{rows, scheme.classes, scheme.hidden};
    const double forward = productTime(ProductKind::forward, config.forward, logits, device);
    const double hidden = scheme.dHidden
                              ? hiddenRounds(scheme, config, rows, device) * tileTime(config.dHidden.block) *
                                    static_cast<double>(scheme.classes)
                              : 0;
    return rows > 0 ? forward + hidden : 0;
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

bool allowsRoles(const Scheme &scheme, ProductKind kind) {
  const auto [a, b] = scheme.operands(kind);
  if (!scheme.aligned || a != b) return false;
  return elementBytes(a) == 2 || (scheme.tf32 && (isOfLogits(kind) || scheme.transposes));
}

int64_t sharedBytesOf(const Scheme &scheme, ProductKind kind, const Product &product) {
  constexpr int64_t rowBytes = 128;     // of an operand in one stage
  constexpr int64_t barriers = 2 << 10; // and what aligning all that costs
  // Two store buffers of 8 KiB for each of two warpgroups.
  const int64_t staging = storesTiles(scheme, kind) ? 32 << 10 : 0;
  return product.stages * (product.block.rows + product.block.columns) * rowBytes + staging + barriers;
}

} // namespace tilewright::lce
