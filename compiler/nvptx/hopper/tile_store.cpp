#include "compiler/nvptx/hopper/tile_store.h"

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
      layout(lowering.layouts().of(op->getOperand(0))), firstRow(lowering.scalar(op->getOperand(2))),
      firstColumn(lowering.scalar(op->getOperand(3))), boxes(boxes) {}

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

Num TileStore::lineOf(int64_t row) { return lowering.position(*layout.rows, row) & (StoreBoxes::kRows - 1); }

/// A box begins at a multiple of 1024, so that a chunk's place is the line's first address with an exclusive
/// or on bits 4 to 6. The 8 rows and 4 columns of pairs of a warp's store of 4 bytes a thread fall on all 32
/// banks.
void TileStore::store(int64_t row, int64_t column, ArrayRef<SmallVector<Value>> values) {
  const int64_t bytes = bytesOf(element);
  Num box = this->box();
  for (auto [r, registers] : llvm::enumerate(values)) {
    Num line = lineOf(row + r), at = lowering.threadPosition(*layout.columns) * bytes;
    Num first = box + line * StoreBoxes::kRowBytes + ((at & 0x70) ^ ((line & 7) * 16)) + (at & 15);
    for (size_t c = 0; c < registers.size(); c += 2) {
      const int64_t chunk = layout.columns->offsets[column + c] * bytes % StoreBoxes::kRowBytes;
      SmallVector<Value> words{registers[c], registers[c + 1]};
      if (bytes == 2) words = {packPair(e, words[0], words[1])};
      e.storeShared(first ^ e.i32(chunk), 0, words);
    }
  }
}

void TileStore::close(int64_t row, int64_t column) {
  fenceAsyncProxy(e);
  e.warpBarrier();
  auto leader = e.b.create<scf::IfOp>((e.thread() & 31) == 0, /*withElseRegion=*/false);
  e.inside(leader.thenBlock(), [&] {
    Num toRow = e.narrow(firstRow) + (lowering.position(*layout.rows, row) - lineOf(row));
    // This thread holds its warp's first columns.
    Num toColumn =
        e.narrow(firstColumn) + lowering.threadPosition(*layout.columns) + layout.columns->offsets[column];
    handOver(toRow, toColumn);
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
