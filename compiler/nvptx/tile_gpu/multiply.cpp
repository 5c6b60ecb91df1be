#include "compiler/nvptx/tile_gpu/multiply.h"

#include "llvm/Support/MathExtras.h"

namespace tilewright::nvptx {

using namespace mlir;
using layout::AxisMap;

namespace {

constexpr int kWarpBit = 5, kWarpgroupBit = 7; // the first of a thread's number that tells warps, warpgroups

/// The bits of the thread's number that move along an axis, from bit `first` on, in the order of their
/// strides.
std::vector<int> bitsFrom(int first, const AxisMap &map) {
  std::vector<int> bits;
  for (const layout::ThreadBit &bit : map.bits)
    if (bit.bit >= first) bits.push_back(bit.bit);
  return bits;
}

} // namespace

Multiply multiplyFor(Type left, Type right, const LoweringOptions &options) {
  if (options.warpgroups) return Multiply::wgmma; // see planWarps
  if (left == right && (left.isBF16() || left.isF16())) return Multiply::mma16;
  return options.tf32 ? Multiply::tf32 : Multiply::fma; // which holds 16-bit numbers exactly
}

Multiply multiplyFor(tile::DotOp op) {
  constexpr int64_t kLine = 32; // numbers: see SharedTile
  const Type left = tile::elementOf(op.getA().getType()), right = tile::elementOf(op.getB().getType());
  const bool isMma = left == right && !left.isF32() && tile::columnsOf(op.getA().getType()) % kLine == 0;
  return isMma ? Multiply::mma16 : Multiply::fma;
}

Multiply multiplyFor(Operation *product, const LoweringOptions &options) {
  if (auto dot = dyn_cast<tile::DotOp>(product)) return multiplyFor(dot);
  auto contract = cast<tile::ContractOp>(product);
  return multiplyFor(cast<tile::ViewType>(contract.getA().getType()).getElement(),
                     cast<tile::ViewType>(contract.getB().getType()).getElement(), options);
}

bool canHold(TileLayout layout, Multiply multiply) {
  const AxisMap &rows = *layout.rows, &columns = *layout.columns;
  if (multiply == Multiply::fma)
    return rows == layout::blockedMap(rows.extent, bitsFrom(0, rows), kRegisterTileRun) &&
           columns == layout::blockedMap(columns.extent, bitsFrom(0, columns), kRegisterTileRun);
  if (multiply == Multiply::wgmma) {
    const auto areOf = [](const AxisMap &left, const AxisMap &right) {
      return left == layout::warpgroupRows(left.extent, int(bitsFrom(kWarpgroupBit, left).size())) &&
             right == layout::warpgroupColumns(right.extent, bitsFrom(kWarpgroupBit, right));
    };
    return areOf(rows, columns) || areOf(columns, rows); // see WarpPlan::swapsOperands
  }
  return rows == layout::accumulatorRows(rows.extent, bitsFrom(kWarpBit, rows)) &&
         columns == layout::accumulatorColumns(columns.extent, bitsFrom(kWarpBit, columns));
}

bool isForWarpgroups(tile::DotOp op, int threadBits, const LoweringOptions &options) {
  constexpr int64_t kLine = 64, kMostColumns = 256; // numbers of a line of shared memory; what wgmma takes
  if (!options.wgmma || threadBits < kWarpgroupBit || multiplyFor(op) != Multiply::mma16) return false;
  const auto type = tile::tileType(op.getResult());
  const int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  const int64_t rowsAtOnce = int64_t(64) << (threadBits - kWarpgroupBit);
  return rows % rowsAtOnce == 0 && columns % kLine == 0 && columns <= kMostColumns &&
         tile::columnsOf(op.getA().getType()) % kLine == 0;
}

std::pair<AxisMap, AxisMap> warpgroupMaps(int64_t rows, int64_t columns, int threadBits) {
  return {layout::warpgroupRows(rows, threadBits - kWarpgroupBit), layout::warpgroupColumns(columns, {})};
}

bool isByWgmma(tile::DotOp op, const Layouts &layouts, const LoweringOptions &options) {
  const int threadBits = llvm::Log2_64(layouts.threads());
  if (!isForWarpgroups(op, threadBits, options)) return false;
  const TileLayout layout = layouts.ofProduct(op);
  const auto [rows, columns] = warpgroupMaps(layout.rows->extent, layout.columns->extent, threadBits);
  return *layout.rows == rows && *layout.columns == columns;
}

} // namespace tilewright::nvptx
