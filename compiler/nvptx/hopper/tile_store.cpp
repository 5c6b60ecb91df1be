#include "compiler/nvptx/hopper/tile_store.h"

#include <numeric>

#include "compiler/nvptx/ptx/mbarrier.h"
#include "compiler/nvptx/threads/memory_access.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace tilewright::nvptx {

using namespace mlir;

bool TileStore::canStore(Operation *op) {
  const bool adds = isa<tile::ReduceAddOp>(op);
  if (!adds && !isa<tile::StoreOp>(op)) return false;
  auto view = dyn_cast<BlockArgument>(viewOf(op));
  auto type = tile::tileType(op->getOperand(0));
  if (!view || cast<tile::ViewType>(view.getType()).getRank() != 2) return false;
  Type element = cast<tile::ViewType>(view.getType()).getElement();
  if (!element.isF32() && (adds || !(element.isBF16() || element.isF16()))) return false;
  return type.getDimSize(1) * bytesOf(element) % StoreBoxes::kRowBytes == 0;
}

TileStore::TileStore(Lowering &lowering, Operation *op, const StoreBoxes &boxes)
    : lowering(lowering), e(lowering.emitter()), op(op), element(lowering.view(viewOf(op)).element),
      layout(lowering.layouts().of(op->getOperand(0))), boxes(boxes),
      firstRow(firstOfWarp(op->getOperand(2), *layout.rows)),
      firstColumn(firstOfWarp(op->getOperand(3), *layout.columns)) {}

/// By the warp's number: ptxas sees then that its threads have the same places for the copies, which it would
/// else look for in a loop.
Num TileStore::firstOfWarp(Value begin, const layout::AxisMap &map) {
  Num firstThread = (boxes.warp * 32) & (lowering.layouts().threads() - 1);
  return e.narrow(lowering.scalar(begin)) + lowering.positionOf(map, firstThread);
}

/// Of a warp's 16 rows a thread holds two, and of each 8 columns two.
StoreTarget::Piece TileStore::piece() const { return {2, StoreBoxes::kRowBytes / bytesOf(element) / 8 * 2}; }

Num TileStore::box() const {
  const int64_t number = (opened - 1) % boxes.perWarp;
  return boxes.memory + (boxes.warp * boxes.perWarp + number) * StoreBoxes::kBoxBytes;
}

/// The thread that hands boxes over waits until at most the other boxes are still being read; of the program
/// before, all may be.
void TileStore::open(int64_t, int64_t) {
  const int64_t reading = opened++ == 0 ? 0 : boxes.perWarp - 1;
  e.b.create<NVVM::CpAsyncBulkWaitGroupOp>(reading, /*read=*/e.b.getUnitAttr());
  e.warpBarrier();
}

/// A box begins at a multiple of 1024, so that a chunk's place is the line's first address with an exclusive
/// or on bits 4 to 6.
void TileStore::store(int64_t row, int64_t column, ArrayRef<SmallVector<Value>> values) {
  for (auto [r, registers] : llvm::enumerate(values))
    bytesOf(element) == 2 ? storePairs(row + r, column, registers) : storeWords(row + r, column, registers);
}

/// The 8 rows and 4 columns of pairs of a warp's store of 4 bytes a thread fall on all 32 banks.
void TileStore::storeWords(int64_t row, int64_t column, ArrayRef<Value> registers) {
  Num line = lowering.position(*layout.rows, row) & (StoreBoxes::kRows - 1);
  Num at = lowering.threadPosition(*layout.columns) * 4;
  Num first = box() + line * StoreBoxes::kRowBytes + ((at & 0x70) ^ ((line & 7) * 16)) + (at & 15);
  for (size_t c = 0; c < registers.size(); c += 2) {
    const int64_t chunk = layout.columns->offsets[column + c] * 4 % StoreBoxes::kRowBytes;
    e.storeShared(first ^ e.i32(chunk), 0, {registers[c], registers[c + 1]});
  }
}

/// Of the instruction's matrices thread i tells where row i % 8 of matrix i / 8 lies.
static void storeMatrices(Emitter &e, Num place, SmallVector<Value> words) {
  const size_t count = words.size();
  std::string list, constraints;
  for (size_t i = 0; i < count; ++i)
    list += (i ? ", $" : "$") + std::to_string(i), constraints += "r,";
  words.push_back(place.value);
  e.ptx({},
        "stmatrix.sync.aligned.m8n8.x" + std::to_string(count) + ".shared.b16 [$" + std::to_string(count) +
            "], {" + list + "};",
        constraints + "r,~{memory}", words, true);
}

/// What a warp's threads have of 8 rows and 8 columns is a matrix of `stmatrix`, which stores up to four of
/// them, side by side here: one instruction, where stores of a thread's words would be four.
void TileStore::storePairs(int64_t row, int64_t column, ArrayRef<Value> registers) {
  constexpr int64_t kMost = 4, kChunkBytes = 16;
  const int64_t pairs = static_cast<int64_t>(registers.size()) / 2, matrices = std::gcd(pairs, kMost);
  Num lane = e.thread() & 31, line = lane & 7, matrix = (lane >> 3) & (matrices - 1);
  Num first = box() + (line + (layout.rows->offsets[row] & 8)) * StoreBoxes::kRowBytes +
              (matrix ^ line) * kChunkBytes;
  for (int64_t pair = 0; pair < pairs; pair += matrices) {
    SmallVector<Value> words;
    for (int64_t c = 2 * pair; c < 2 * (pair + matrices); c += 2)
      words.push_back(packPair(e, registers[c], registers[c + 1]));
    const int64_t chunk = layout.columns->offsets[column + 2 * pair] * 2 % StoreBoxes::kRowBytes;
    storeMatrices(e, first ^ e.i32(chunk), words);
  }
}

void TileStore::close(int64_t row, int64_t column) {
  fenceAsyncProxy(e);
  e.warpBarrier();
  auto leader = e.b.create<scf::IfOp>((e.thread() & 31) == 0, /*withElseRegion=*/false);
  e.inside(leader.thenBlock(), [&] {
    handOver(firstRow + layout.rows->offsets[row], firstColumn + layout.columns->offsets[column]);
    e.b.create<NVVM::CpAsyncBulkCommitGroupOp>();
  });
}

/// The copy engine takes the box to its place, or adds it to what is there, for which NVVM has no operation.
void TileStore::handOver(Num toRow, Num toColumn) {
  if (isa<tile::ReduceAddOp>(op))
    e.ptx({}, "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [$0, {$1, $2}], [$3];",
          "l,r,r,r,~{memory}", {boxes.map, toColumn.value, toRow.value, box().value}, true);
  else
    e.b.create<NVVM::CpAsyncBulkTensorSharedCTAToGlobalOp>(boxes.map, e.sharedPointer(box()),
                                                           ValueRange{toColumn.value, toRow.value}, Value());
}

void TileStore::finish(Emitter &e) { e.b.create<NVVM::CpAsyncBulkWaitGroupOp>(0, /*read=*/UnitAttr()); }

} // namespace tilewright::nvptx
