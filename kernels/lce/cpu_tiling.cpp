#include <algorithm>
#include <limits>

#include "kernels/lce/tiling.h"

namespace tilewright::lce {
namespace {

// Accumulators and packed panels of a block of this size stay in a second-level cache of 1 MiB.
constexpr int64_t kMaxRows = 192, kMaxColumns = 256;
// Moving one number into a packed panel costs as much as this many multiply-adds.
constexpr double kPackCost = 10;

/// The block for which the busiest of `units` workers is done first.
Block chooseBlock(int64_t rows, int64_t columns, int64_t fixedColumns, int units) {
  Block best;
  double bestCost = std::numeric_limits<double>::infinity();
  for (int64_t c = kMaxColumns; c >= kColumnStep; c -= kColumnStep)
    for (int64_t r = kMaxRows; r >= kRowStep; r -= kRowStep) {
      if (fixedColumns && c != fixedColumns) continue;
      const int64_t programs = ceilDiv(rows, r) * ceilDiv(columns, c);
      const double cost = ceilDiv(programs, units) * (double(r) * c + kPackCost * (r + c));
      if (cost < bestCost) best = {r, c}, bestCost = cost;
    }
  return best;
}

} // namespace

/// A block's shape decides how work is shared, never a result's bits: each element of a product is summed in
/// the same order in every block. Only the columns of the forward block do decide bits (they are S's partial
/// sums), so those depend on V alone.
Product chooseCpuProduct(const Scheme &scheme, ProductKind kind, const ProductShape &shape,
                         const DeviceInfo &device) {
  const bool isForward = kind == ProductKind::forward;
  const int64_t columns = isForward ? std::min(kMaxColumns, roundUp(scheme.classes, kColumnStep)) : 0;
  return {chooseBlock(shape.rows, shape.columns, columns, device.units)};
}

} // namespace tilewright::lce
