#include "kernels/lce/product_cost.h"

#include <cmath>
#include <limits>
#include <utility>

#include "kernels/lce/tiling.h"

namespace tilewright::lce {
namespace {

using Roles = Schedule::WarpRoles;

// bench --grid tools/bench/heads.json --dtype bf16 --against cublas --json FILE: 28 heads on H200s,
// 2026-11-25; 18 of them on two H100s, 2026-11-26.
//
// Deep products: whole calls in either tiles, in turn on an H200 (2026-11-27). With tiles that pairs share
// for dW five heads of 8192 rows took 0.5 to 2.4 % less, and 8192×3072×32064 0.4 % more; for logits, since
// their kernel tells nothing but sums, nine of ten heads of hidden sizes from 3584 on took 0.3 to 1.4 % less
// in the mean of two or three H200s, and 4096×3584×256000 as much as before; five of 2304 to 3072 took 0 to 9
// % more. Whole calls were not compared on an H100, which keeps what it had.
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr GpuSpeed kSpeeds[] = {
    {"H200", 3.24e12, 4.2e12, 5e-6, 0, 7 << 10, 7 << 9},
    {"H100", 3.32e12, 3.1e12, 5e-6, 6, 12 << 10, kNever},
};

/// Multiply-adds of other types take so many times as long at the power limit. f16: 28 heads by `bench --grid
/// tools/bench/heads.json --dtype f16 --against cublas` on an H200, 2026-11-29.
double typeFactor(const Scheme &scheme) {
  constexpr double kTf32 = 1.88, kF16 = 1.03;
  return scheme.tf32 ? kTf32 : scheme.element == ElementType::f16 ? kF16 : 1;
}

/// Time of a tile for each step of its depth, in multiply-adds: its own, and the copies of its rows and
/// columns. `isStored`: behind them its numbers are written.
double tileTime(const Product &product, bool isStored) {
  constexpr double kCopyCost =
      20; // multiply-adds in the time of one number, when copies hide behind products
  // Of stored tiles that warpgroups share, without a pair that shares an operand. Without stores it does not
  // hold: the loss alone of 256×2048×128256 took 1.061 of cuBLAS's product in such tiles of 128×256, 1.074 in
  // pairs of 128×192 in turns (one H200, 2026-11-28).
  constexpr double kUnshared = 1.03;
  // Of tiles in turns without stores, whose epilogue another tile's products hide: six heads of a loss alone
  // took 0.92 to 0.97 of what is expected of tiles with stores (one H200, 2026-11-28).
  constexpr double kHidden = 0.95;
  const Block &block = product.block;
  const double time = static_cast<double>(block.rows * block.columns) +
                      kCopyCost * static_cast<double>(block.rows + block.columns);
  if (!isStored) return product.roles == Roles::pingPong ? kHidden * time : time;
  return product.roles == Roles::cooperative && product.clusterCtas == 1 ? kUnshared * time : time;
}

/// Where one strip of tiles has all rows of dX, no tile reads what another has brought to the cache, and
/// three stages of large tiles wait for memory more often than four of smaller ones. With pairs of 256×128 in
/// place of 256×192 whole calls of 256×2048×128256 take 0.966, 0.973, 0.986 and 1.010 of the time on four
/// H200s, 256×4096×128256 0.992 and 256×8192×128256 1.010 on one (from PyTorch, configurations in turn,
/// 2026-11-28).
double memoryFactor(const Product &product, ProductKind kind, const ProductShape &shape) {
  constexpr double kFewStages = 1.04;
  const bool isOneStrip = kind == ProductKind::dHidden && shape.rows <= product.block.rows;
  return isOneStrip && hasRoles(product) && product.stages < 4 ? kFewStages : 1;
}

/// A product's tiles, as clusters of multiprocessors take them: each so many side by side.
struct Tiles {
  int64_t strips, across, workers;

  Tiles(const Product &product, const ClusterShape &cluster, int64_t rows, int64_t columns, int units)
      : strips(ceilDiv(rows, product.block.rows * cluster.below)),
        across(ceilDiv(columns, product.block.columns * cluster.abreast)),
        workers(std::max<int64_t>(1, units / (cluster.below * cluster.abreast))) {}

  /// One after the other, with each tile cut into parts of its depth.
  double rounds(int64_t parts = 1) const {
    return static_cast<double>(ceilDiv(strips * across * parts, workers)) / static_cast<double>(parts);
  }
};

/// What a product writes, of which a loss alone keeps nothing.
double bytesWritten(const Scheme &scheme, ProductKind kind, const ProductShape &shape, bool adds) {
  const double numbers = static_cast<double>(shape.rows) * static_cast<double>(shape.columns);
  const auto of = [&](ElementType type) { return numbers * static_cast<double>(elementBytes(type)); };
  if (isOfLogits(kind)) return scheme.keepsExponentials ? of(scheme.exponentials) : 0;
  if (kind == ProductKind::dHidden) return of(*scheme.dHidden);
  return adds ? 8 * numbers : of(*scheme.dWeight); // fp32 is read and written
}

/// A product in its tiles, with one tail or another.
class Model {
public:
  Model(const Scheme &scheme, const Config &config, ProductKind kind, const ProductShape &shape,
        const DeviceInfo &device)
      : product_(config[kind]), shape_(shape), device_(device), speed_(speedOf(device)) {
    const bool adds = kind == ProductKind::dWeight && config.weightParts(scheme) > 1;
    const double written = bytesWritten(scheme, kind, shape, adds);
    const int64_t number = elementBytes(scheme.operands(kind).first);
    isStored_ = written > 0;
    bytes_ = operandBytes(product_, shape, number, isStored_, device) + written;
    roundSeconds_ = tileTime(product_, isStored_) * static_cast<double>(shape.depth) * typeFactor(scheme) *
                    memoryFactor(product_, kind, shape) / speed_.multiplyAdds;
  }

  /// Of the first `head` rows, and of parts of the others, whose clusters are abreast: tiles below one
  /// another may be of different parts.
  static double rounds(const Product &product, const ProductShape &shape, const Tail &tail, int units) {
    const ClusterShape cluster(product);
    if (!isCut(shape, tail)) return Tiles(product, cluster, shape.rows, shape.columns, units).rounds();
    ClusterShape abreast = cluster;
    abreast.abreast *= std::exchange(abreast.below, 1);
    return Tiles(product, cluster, tail.begin, shape.columns, units).rounds() +
           Tiles(product, abreast, shape.rows - tail.begin, shape.columns, units).rounds(tail.parts);
  }

  ProductCost with(const Tail &tail) const {
    ProductCost cost{rounds(product_, shape_, tail, device_.units), bytes_, 0};
    // Neither hides all of the other, though more where nothing is written: the product of a loss alone of
    // 256×2048×128256 takes 0.21 ms, of which memory has 0.13 and tensor cores 0.19 (one H200, 2026-11-28).
    const double products = cost.rounds * roundSeconds_, memory = cost.bytes / speed_.bytes;
    const double power = isStored_ ? 2 : 3;
    cost.seconds = std::pow(std::pow(products, power) + std::pow(memory, power), 1 / power);
    if (isCut(shape_, tail)) {
      // Written, and read by what adds up.
      const double parts =
          2.0 * 4 * static_cast<double>(tail.parts * (shape_.rows - tail.begin) * shape_.columns);
      cost.bytes += parts;
      cost.seconds += parts / speed_.bytes + (tail.begin > 0 ? 2 : 1) * kBetweenProducts;
    }
    return cost;
  }

  /// The tail whose parts fill the multiprocessors better than whole tiles do, or none.
  Tail cheapestTail(int64_t mostBytes) const {
    constexpr int64_t kMostParts = 16;
    const ClusterShape cluster(product_);
    const Tiles tiles(product_, cluster, shape_.rows, shape_.columns, device_.units);
    const int64_t full = tiles.strips * tiles.across / tiles.workers; // rounds
    Tail best;
    double least = with(best).seconds;
    for (const int64_t whole : {full, full - 1}) {
      const int64_t head = whole * tiles.workers / tiles.across * cluster.below * product_.block.rows;
      if (whole < 0 || head >= shape_.rows) continue;
      for (int64_t parts = 2; parts <= kMostParts; ++parts) {
        const Tail tail{head, parts};
        const int64_t bytes = 4 * parts * roundUp(shape_.rows - head, product_.block.rows) * shape_.columns;
        const double seconds = with(tail).seconds;
        if (bytes <= mostBytes && seconds < least) best = tail, least = seconds;
      }
    }
    return best;
  }

private:
  static bool isCut(const ProductShape &shape, const Tail &tail) {
    return tail.parts > 1 && shape.rows > tail.begin;
  }

  Product product_;
  ProductShape shape_;
  const DeviceInfo &device_;
  const GpuSpeed &speed_;
  double bytes_ = 0, roundSeconds_ = 0;
  bool isStored_ = false;
};

const Tail &tailOf(const Config &config, ProductKind kind) {
  static constexpr Tail kNone;
  return kind == ProductKind::dHidden ? config.tail : kNone;
}

} // namespace

const GpuSpeed &speedOf(const DeviceInfo &device) {
  for (const GpuSpeed &speed : kSpeeds)
    if (device.name.find(speed.chip) != std::string::npos) return speed;
  return kSpeeds[0];
}

ProductCost productCost(const Scheme &scheme, const Config &config, ProductKind kind,
                        const ProductShape &shape, const DeviceInfo &device) {
  return Model(scheme, config, kind, shape, device).with(tailOf(config, kind));
}

double roundsOf(const Config &config, ProductKind kind, const ProductShape &shape, const DeviceInfo &device) {
  return Model::rounds(config[kind], shape, tailOf(config, kind), device.units);
}

void chooseTail(const Scheme &scheme, const DeviceInfo &device, Config &config) {
  constexpr ProductKind kKind = ProductKind::dHidden;
  config.tail = {};
  if (!scheme.dHidden) return;
  const ProductShape shape = shapeOf(scheme, kKind, config);
  if (device.sharedBytes == 0) config.tail.parts = chooseCpuParts(shape, config.tailBytes);
  if (!hasRoles(config.dHidden)) return;
  const Model model(scheme, config, kKind, shape, device);
  config.tail = model.cheapestTail(config.tailBytes);
}

} // namespace tilewright::lce
