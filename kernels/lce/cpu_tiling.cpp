#include <algorithm>
#include <limits>

#include "kernels/lce/tiling.h"

namespace tilewright::lce {
namespace {

constexpr int64_t kMib = 1 << 20;
constexpr int64_t kForwardColumns = 256;
constexpr int64_t kPackedStep = 256; // of the contracted axis, as the lowering takes it if it is not told

/// What blocks a processor computes best.
struct Sizes {
  int64_t maxRows, maxColumns; ///< of a block
  int64_t scratchBytes;        ///< accumulators and packed panels that stay in the second-level cache
  double packCost;             ///< multiply-adds in the time of moving one number into a packed panel
  int64_t step = kPackedStep;  ///< of the contracted axis, packed at once
};

/// Where the second-level cache is large, the last one is far: what is packed costs more. Where it is small,
/// half a step leaves room for larger blocks. On a Zen 3 EPYC (512 KiB; f32, 256×768×8192, one thread) blocks
/// of 256×256 took 41, 40 and 52 ms for the three products, of 192×256 with whole steps 45, 49 and 54.
Sizes sizesFor(const DeviceInfo &device) {
  const bool isKnown = device.cacheBytes > 0;
  if (isKnown && device.cacheBytes < kMib) return {256, 256, device.cacheBytes, 10, kPackedStep / 2};
  if (device.cacheBytes < 2 * kMib) return {192, 256, kMib, 10};
  return {512, 512, device.cacheBytes / 4 * 3, 64};
}

/// The block for which the busiest of the device's workers is done first, of a product in so many parts of
/// its depth. A packed number takes so many bytes. Parts lie below one another, in whole blocks: theirs
/// divide the rows, so that how many workers there are does not decide what parts take of memory.
Block chooseBlock(const ProductShape &shape, int64_t parts, int64_t fixedColumns, int64_t numberBytes,
                  const Sizes &sizes, const DeviceInfo &device) {
  Block best{kRowStep, fixedColumns ? fixedColumns : kColumnStep};
  double bestCost = std::numeric_limits<double>::infinity();
  for (int64_t c = sizes.maxColumns; c >= kColumnStep; c -= kColumnStep)
    for (int64_t r = sizes.maxRows; r >= kRowStep; r -= kRowStep) {
      if (fixedColumns && c != fixedColumns) continue;
      if (parts > 1 && shape.rows % r != 0) continue;
      if (4 * r * c + numberBytes * sizes.step * (r + c) > sizes.scratchBytes) continue;
      const int64_t programs = parts * ceilDiv(shape.rows, r) * ceilDiv(shape.columns, c);
      const double cost = ceilDiv(programs, device.units) * (double(r) * c + sizes.packCost * (r + c));
      if (cost < bestCost) best = {r, c}, bestCost = cost;
    }
  return best;
}

} // namespace

/// Two of the largest blocks for each of 16 workers: one would leave nothing to take over from a worker that
/// the host holds up. Not more, for storing and adding up the parts takes time and memory. What the parts are
/// decides bits, so that they must not depend on how many workers there are. On a Xeon with AMX (16 cores,
/// 2026-11-25; TILEWRIGHT_DEVICE=cpu TILEWRIGHT_THREADS=16 tilewright bench --shape 1024,768,32768 --dtype
/// f32) 1, 8 and 16 parts took 125, 117 and 106 ms; of bf16 1, 4 and 16 parts took 30.5, 25.2 and 27.4.
int64_t chooseCpuParts(const ProductShape &shape, int64_t mostBytes) {
  constexpr int64_t kExtent = 384, kBlocks = 32, kLeastDepth = 2048, kMostParts = 16;
  const int64_t blocks = ceilDiv(shape.rows, kExtent) * ceilDiv(shape.columns, kExtent);
  const int64_t deepEnough = shape.depth / kLeastDepth,
                fitting = mostBytes / (4 * shape.rows * shape.columns);
  return std::max<int64_t>(1, std::min({ceilDiv(kBlocks, blocks), deepEnough, fitting, kMostParts}));
}

/// A block's shape decides how work is shared, never a result's bits: each element of a product is summed in
/// the same order in every block. Only the columns of the forward block do decide bits (they are S's partial
/// sums), so those depend on V alone; and the step, which the processor's cache decides.
Product chooseCpuProduct(const Scheme &scheme, ProductKind kind, const DeviceInfo &device,
                         const Config &config) {
  const ProductShape shape = shapeOf(scheme, kind, config);
  const bool isForward = kind == ProductKind::forward;
  const int64_t columns = isForward ? std::min(kForwardColumns, roundUp(scheme.classes, kColumnStep)) : 0;
  const int64_t numberBytes = scheme.element == ElementType::bf16 ? 2 : 4; // f16 is packed as fp32
  const Sizes sizes = sizesFor(device);
  const int64_t parts = kind == ProductKind::dHidden ? chooseCpuParts(shape, config.tailBytes) : 1;
  Product product{chooseBlock(shape, parts, columns, numberBytes, sizes, device)};
  if (sizes.step != kPackedStep) product.contractionStep = sizes.step;
  return product;
}

} // namespace tilewright::lce
