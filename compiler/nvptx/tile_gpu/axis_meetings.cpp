#include "compiler/nvptx/tile_gpu/axis_meetings.h"

#include "compiler/dialect/tile_ops.h"
#include "compiler/nvptx/tile_gpu/tile_gpu.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::nvptx {

using namespace mlir;

using Meet = llvm::function_ref<void(Value, Value, int)>;

static void meetAlong(int axis, Value a, Value b, Meet meet) {
  if (tile::tileType(a).getDimSize(axis) == tile::tileType(b).getDimSize(axis)) meet(a, b, axis);
}

static void meetAlongBoth(Value a, Value b, Meet meet) {
  meetAlong(0, a, b, meet);
  meetAlong(1, a, b, meet);
}

static void forEachMeetingOfLoop(scf::ForOp loop, Meet meet) {
  auto yielded = loop.getBody()->getTerminator()->getOperands();
  for (auto [argument, init, next, last] :
       llvm::zip(loop.getRegionIterArgs(), loop.getInitArgs(), yielded, loop.getResults()))
    if (isa<RankedTensorType>(init.getType()))
      for (Value value : {Value(init), Value(next), Value(last)})
        meetAlongBoth(argument, value, meet);
}

void forEachMeeting(Operation *op, Meet meet) {
  if (auto loop = dyn_cast<scf::ForOp>(op)) return forEachMeetingOfLoop(loop, meet);
  if (isa<tile::TransposeOp, tile::ContractOp, tile::DotOp, ConvertLayoutOp>(op)) return;
  if (auto load = dyn_cast<tile::LoadRowsOp>(op)) return meetAlong(0, load.getRows(), load.getResult(), meet);
  if (auto load = dyn_cast<tile::LoadElementsOp>(op))
    return meetAlong(0, load.getColumns(), load.getResult(), meet);
  if (auto store = dyn_cast<tile::StoreRowsOp>(op))
    return meetAlong(0, store.getRows(), store.getValue(), meet);
  if (auto reduce = dyn_cast<tile::ReduceOp>(op))
    return meetAlong(reduce.getAxis() == 1 ? 0 : 1, reduce.getValue(), reduce.getResult(), meet);
  // A broadcast, or element by element: axes of one extent are one.
  for (Value operand : op->getOperands())
    for (Value value : op->getResults())
      if (isa<RankedTensorType>(operand.getType()) && isa<RankedTensorType>(value.getType()))
        meetAlongBoth(operand, value, meet);
}

} // namespace tilewright::nvptx
