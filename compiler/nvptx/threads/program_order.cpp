#include "compiler/nvptx/threads/program_order.h"

#include "compiler/artifact.h"
#include "compiler/dialect/kernel_signature.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tilewright::nvptx {

static Num divide(Num a, Num b) { return {a.e, a.e->b.createOrFold<mlir::arith::DivUIOp>(a.value, b.value)}; }

ProgramOrder::ProgramOrder(Lowering &lowering, int64_t rasterRows, int64_t clusterCtas, int64_t clusterAxis)
    : e(lowering.emitter()), total(e.i32(1)), rasterRows(rasterRows), clusterCtas(clusterCtas),
      clusterAxis(clusterAxis) {
  if (clusterAxis == 0) this->rasterRows = (rasterRows + clusterCtas - 1) / clusterCtas;
  mlir::func::FuncOp kernel = lowering.function();
  for (const GridAxis &axis : tile::gridOf(kernel)) {
    Value parameter = kernel.getArgument(axis.parameter);
    bool isView = mlir::isa<tile::ViewType>(parameter.getType());
    Num extent = isView ? lowering.view(parameter).sizes[axis.dim] : lowering.scalar(parameter);
    const int64_t block = axis.block * (int64_t(sizes.size()) == clusterAxis ? clusterCtas : 1);
    sizes.push_back(e.narrow((extent + (block - 1)) / block));
    total = total * sizes.back();
  }
}

SmallVector<Num> ProgramOrder::programAt(Num number, Num cta) const {
  if (sizes.size() < 2) return {e.wide(number)};
  Num perGroup = sizes[1] * rasterRows, group = divide(number, perGroup);
  Num inside = number - group * perGroup, first = group * rasterRows;
  Num rows = minimum(sizes[0] - first, e.i32(rasterRows));
  Num column = divide(inside, rows);
  SmallVector<Num> place{first + (inside - column * rows), column};
  place[clusterAxis] = place[clusterAxis] * clusterCtas + cta;
  return {e.wide(place[0]), e.wide(place[1])};
}

} // namespace tilewright::nvptx
