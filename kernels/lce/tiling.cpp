// How the products of a scheme are computed on a GPU that nothing was measured on.

#include <algorithm>
#include <limits>

#include "kernels/lce/product_cost.h"
#include "kernels/lce/tiling.h"

namespace tilewright::lce {
namespace {

using Roles = Schedule::WarpRoles;

/// A loss alone keeps nothing of its product but sums of rows.
bool storesTiles(const Scheme &scheme, ProductKind kind) {
  return kind != ProductKind::forward || scheme.keepsExponentials;
}

/// Of an operand's number: where E is fp32 and X is not, of the larger one.
int64_t bytesOf(const Scheme &scheme, ProductKind kind) {
  return static_cast<int64_t>(elementBytes(scheme.operands(kind).first));
}

// ---- Warps with roles --------------------------------------------------------------------------------

/// The order of tiles, where the candidate has none of its own, and as many stages as fit.
void chooseOrderAndStages(const Scheme &scheme, ProductKind kind, const ProductShape &shape,
                          const DeviceInfo &device, Product &product) {
  constexpr int kMostStages = 6;
  const bool stores = storesTiles(scheme, kind);
  if (product.rasterRows == 0)
    product.rasterRows = chooseRaster(product, shape, bytesOf(scheme, kind), stores, device);
  product.stages = kMostStages;
  while (product.stages > 3 && sharedBytesOf(scheme, kind, product) > device.sharedBytes)
    --product.stages;
}

Product productOf(const Block &block, Roles roles, int clusterCtas) {
  Product product;
  product.block = block, product.roles = roles, product.clusterCtas = clusterCtas;
  return product;
}

/// Whether the second-level cache holds a good part of the operands: it matters little then how often tiles
/// read them. On an H100 tiles of 128×128 for dX are 6 % of 1024×2048×8192, 7 % of 2048×1024×8192; beyond
/// this they lose: 8 % of 512×4096×32000 (`tilewright bench --dtype bf16 --against cublas`, 2026-11-26).
bool haveSmallOperands(const ProductShape &shape, int64_t numberBytes) {
  constexpr int64_t kMostBytes = int64_t(88) << 20;
  return (shape.rows + shape.columns) * shape.depth * numberBytes <= kMostBytes;
}

/// Of tiles that suit few rows or small operands, other types and second passes were not measured.
bool wereSmallTilesMeasured(const Scheme &scheme) {
  return scheme.element == ElementType::bf16 && !scheme.hasSecondPass;
}

constexpr int64_t kHalfTile = 64;        ///< rows
constexpr Block kLargeTile = {256, 192}; ///< of logits

/// So few rows that other tiles would be half empty, which takes room from what is on its way of W. In a CUDA
/// graph an H100 takes 275 and not 289 µs for 64×2048×50304, 1206 and not 1252 for 64×4096×128256
/// (2026-11-27).
bool fillHalfTiles(const Scheme &scheme, const ProductShape &shape) {
  return wereSmallTilesMeasured(scheme) && shape.rows <= kHalfTile;
}

/// Tiles for a deep product that pairs share: those that read the fewest bytes first. 192×256 takes 1 to 2 %
/// more than 256×192, for of E less is shared. Small tiles give more multiprocessors one.
std::vector<Product> hiddenCandidates(const Scheme &scheme, const ProductShape &shape) {
  constexpr Roles kRoles = Roles::cooperative;
  if (fillHalfTiles(scheme, shape)) return {productOf({kHalfTile, 256}, kRoles, 1)};
  std::vector<Product> all = {productOf({256, 192}, kRoles, 2), productOf({192, 256}, kRoles, 2),
                              productOf({256, 192}, kRoles, 1), productOf({256, 128}, kRoles, 2),
                              productOf({128, 256}, kRoles, 2), productOf({256, 128}, kRoles, 1),
                              productOf({128, 192}, kRoles, 2)};
  if (haveSmallOperands(shape, bytesOf(scheme, ProductKind::dHidden)))
    all.push_back(productOf({128, 128}, kRoles, 1));
  return all;
}

/// Whether logits and dW may take tiles of 128×128, too, of which the last round leaves fewer multiprocessors
/// idle: on an H100, in a CUDA graph, 4.4 of 154 µs of 256×1024×32768 are the logits', 4 of 219 of
/// 1024×2048×8192 dW's (2026-11-26).
bool mayTakeSmallTiles(const Scheme &scheme, ProductKind kind, const ProductShape &shape) {
  return wereSmallTilesMeasured(scheme) && haveSmallOperands(shape, bytesOf(scheme, kind));
}

/// The raster of a dW that reads both operands again and again, if the chip has one for it; else 0. What an
/// H100 takes then hangs on the order of tiles more than on the bytes read. Of 8192×3584×152064 it takes 13.3
/// to 13.7 ms in tiles of 128×192, in rasters of 6 to 22, and 14.1 to 27.5 in tiles of 192×128; of
/// 4096×7168×129280 11.4 and 13.7; of 8192×3072×32064 2.37 in rasters of 6 and 2.78 of 1; of
/// 8192×2560×262208, which fills 0.95 of tiles of 192 columns, 16.5 in 192×128, in rasters of 6, and 18.3 to
/// 21.6 in others (product_bench --shape N,H,V --dw 128x192:pingPong:4:6:1,…, 2026-11-27). Narrower X gains
/// nothing.
int weightRaster(const ProductShape &shape, int64_t numberBytes, const DeviceInfo &device) {
  constexpr int64_t kLeastColumns = 12 * 192;
  const bool isRead = 4 * shape.columns * shape.depth * numberBytes > device.cacheBytes;
  const bool applies = numberBytes == 2 && shape.columns >= kLeastColumns && isRead;
  return applies ? speedOf(device).weightRaster : 0;
}

/// Two warpgroups that share a tile leave the tensor cores idle while they store it. What large tiles save is
/// worth that from this depth on.
int64_t deepWeight(int64_t numberBytes, const DeviceInfo &device) {
  constexpr int64_t kDeep = 12 << 10;
  return numberBytes == 2 ? speedOf(device).deepWeight : kDeep;
}

/// The many stores of a shallow dW hide behind another tile's products. A deep one takes tiles that pairs
/// share, 256 columns of X first, as these read the fewest bytes; but where they compute too much that lies
/// outside of the matrix to gain anything, it takes narrow tiles in turn, which come first.
std::vector<Product> weightCandidates(const Scheme &scheme, const ProductShape &shape,
                                      const DeviceInfo &device) {
  constexpr Roles kTogether = Roles::cooperative, kInTurn = Roles::pingPong;
  const int64_t numberBytes = bytesOf(scheme, ProductKind::dWeight), deep = deepWeight(numberBytes, device);
  if (allowsLargeTiles(scheme, ProductKind::dWeight) && (shape.depth < deep || shape.depth < scheme.rows)) {
    const Product wide = productOf({128, 192}, kInTurn, 1), tall = productOf({192, 128}, kInTurn, 1);
    if (const int raster = weightRaster(shape, numberBytes, device)) {
      Product product = 100 * shape.columns >= 96 * roundUp(shape.columns, wide.block.columns) ? wide : tall;
      product.rasterRows = raster;
      return {product};
    }
    std::vector<Product> all = {wide, tall};
    if (mayTakeSmallTiles(scheme, ProductKind::dWeight, shape))
      all.push_back(productOf({128, 128}, kInTurn, 1));
    return all;
  }
  return {productOf({192, 128}, kInTurn, 1),   productOf({192, 256}, kTogether, 2),
          productOf({256, 192}, kTogether, 2), productOf({256, 192}, kTogether, 1),
          productOf({256, 128}, kTogether, 2), productOf({128, 192}, kTogether, 2)};
}

/// Hidden size from which on logits of which only sums are kept take large tiles that pairs share. Of more
/// than one strip of those, 2048 is not yet deep: the loss alone of 2048×2048×50304 takes 0.967 of cuBLAS's
/// product in turns, and 0.980 and 0.988 in large tiles, on one H200, 0.969 and 0.971 on another (2026-11-29,
/// 28). Turns take 0.995 of the time of large tiles for 16384×2048×49155, and 0.998 for 32768×2048×128256.
int64_t deepSums(const ProductShape &shape, int64_t numberBytes) {
  constexpr int64_t kDeep = 2048, kDeepOfStrips = 2304;
  return numberBytes == 2 && shape.rows > kLargeTile.rows ? kDeepOfStrips : kDeep;
}

/// Exponentials hide behind another tile's products. Where logits are so deep that exponentials which nothing
/// hides hardly count, they take large tiles that pairs share; sooner if only sums of them are kept.
std::vector<Product> logitsCandidates(const Scheme &scheme, ProductKind kind, const ProductShape &shape,
                                      const DeviceInfo &device) {
  const bool isStored = storesTiles(scheme, kind);
  if (isStored && fillHalfTiles(scheme, shape)) return {productOf({kHalfTile, 192}, Roles::pingPong, 1)};
  // More than sums leaves taking turns no register for a place in a cluster.
  const Product inTurn = productOf({128, 192}, Roles::pingPong, !isStored && scheme.wantsTotalsAlone ? 2 : 1);
  if (isStored && mayTakeSmallTiles(scheme, kind, shape))
    return {inTurn, productOf({128, 128}, inTurn.roles, inTurn.clusterCtas)};
  if (isStored && (kind != ProductKind::forward || scheme.element != ElementType::bf16)) return {inTurn};
  const int64_t deep = isStored ? speedOf(device).deepLogits : deepSums(shape, bytesOf(scheme, kind));
  if (shape.depth < deep) return {inTurn};
  const Product large = productOf(kLargeTile, Roles::cooperative, 2);
  if (shape.rows > kLargeTile.rows) return {large, inTurn};
  // In a single strip of rows all of these read each operand once. For the loss alone of 256×2048×128256 an
  // H100 and an H200 take 1.6 and 3 % less in wide tiles than in pairs that take turns, an H200 5 % more in
  // large ones. Stored logits take an H100 as long in wide tiles as in turns (from PyTorch, configurations in
  // turn, 2026-11-27).
  if (isStored) return {inTurn, large};
  std::vector<Product> all = {productOf({128, 256}, Roles::cooperative, 1), inTurn, large};
  // Two H200s take 0.946 of the time of wide tiles in turns of 200 columns without pairs, for that problem.
  // Of two strips that are not both full they took 1.24 once, for 129 rows, which is not explained
  // (2026-11-28).
  if (scheme.rows == kLargeTile.rows) all.insert(all.begin(), productOf({128, 200}, Roles::pingPong, 1));
  return all;
}

/// The first of the candidates, unless a later one takes less time by more than estimates err.
Product chooseWarpgroupProduct(const Scheme &scheme, ProductKind kind, const ProductShape &shape,
                               const DeviceInfo &device, const Config &config) {
  constexpr double kWorthwhile = 0.98;
  Product best;
  double least = std::numeric_limits<double>::infinity();
  Config tried = config;
  for (const Product &product : candidatesFor(scheme, kind, device, config)) {
    tried[kind] = product;
    if (kind == ProductKind::dHidden) chooseTail(scheme, device, tried);
    const double seconds = productCost(scheme, tried, kind, shape, device).seconds;
    if (seconds < kWorthwhile * least) best = product, least = seconds;
  }
  return best;
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
  if (device.sharedBytes == 0) return chooseCpuProduct(scheme, kind, device, config);
  const ProductShape shape = shapeOf(scheme, kind, config);
  if (!device.warpgroups || !allowsRoles(scheme, kind))
    return choosePortableProduct(shape, bytesOf(scheme, kind), device);
  return chooseWarpgroupProduct(scheme, kind, shape, device, config);
}

std::vector<Product> candidatesFor(const Scheme &scheme, ProductKind kind, const DeviceInfo &device,
                                   const Config &config) {
  if (!device.warpgroups || !allowsRoles(scheme, kind)) return {};
  const ProductShape shape = shapeOf(scheme, kind, config);
  std::vector<Product> all = kind == ProductKind::dHidden   ? hiddenCandidates(scheme, shape)
                             : kind == ProductKind::dWeight ? weightCandidates(scheme, shape, device)
                                                            : logitsCandidates(scheme, kind, shape, device);
  const auto lacksRegisters = [&](const Product &product) {
    return accumulatorsOf(product.block, product.roles) > 128 && !allowsLargeTiles(scheme, kind);
  };
  all.erase(std::remove_if(all.begin(), all.end(), lacksRegisters), all.end());
  for (Product &product : all)
    chooseOrderAndStages(scheme, kind, shape, device, product);
  return all;
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
    config[kind] = chooseWarpgroupProduct(scheme, kind, shapeOf(scheme, kind, config), device, config);
    chooseTail(scheme, device, config);
  }
}

bool allowsRoles(const Scheme &scheme, ProductKind kind) {
  const auto [a, b] = scheme.operands(kind);
  if (!scheme.aligned || a != b) return false;
  return elementBytes(a) == 2 || (scheme.tf32 && (isOfLogits(kind) || scheme.transposes));
}

int64_t sharedBytesOf(const Scheme &scheme, ProductKind kind, const Product &product) {
  constexpr int64_t rowBytes = 128;     // of an operand in one stage
  constexpr int64_t barriers = 2 << 10; // and what aligning all that costs
  // Two boxes of 2 KiB for each of eight warps, the fewest that a store has.
  const int64_t staging = storesTiles(scheme, kind) ? 32 << 10 : 0;
  return product.stages * (product.block.rows + product.block.columns) * rowBytes + staging + barriers;
}

} // namespace tilewright::lce
