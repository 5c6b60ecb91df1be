#include "compiler/nvptx/threads/program_order.h"

#include "compiler/artifact.h"
#include "compiler/dialect/kernel_signature.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tilewright::nvptx {

static Num divide(Num a, Num b) { return {a.e, a.e->b.createOrFold<mlir::arith::DivUIOp>(a.value, b.value)}; }

Divisor Divisor::ofMany(Num value) {
  const Num positive = maximum(value, value.e->i32(1)); // an empty grid divides nothing
  return {value, divide(value.e->i32(-1), positive)};
}

/// The reciprocal is 2^32 / value less at most 1, so that the quotient of a number below 2^32 is at most 1
/// too small.
Num Divisor::quotientOf(Num number) const {
  if (!reciprocal) return divide(number, value);
  Emitter &e = *value.e;
  Num quotient = e.num(e.b.create<mlir::arith::MulUIExtendedOp>(number.value, reciprocal->value).getHigh());
  Value isWhole = unsignedLess(number - quotient * value, value);
  return e.choose(isWhole, quotient, quotient + 1);
}

static Divisor choose(Value condition, const Divisor &yes, const Divisor &no) {
  Emitter &e = *yes.value.e;
  Divisor chosen{e.choose(condition, yes.value, no.value), {}};
  if (yes.reciprocal) chosen.reciprocal = e.choose(condition, *yes.reciprocal, *no.reciprocal);
  return chosen;
}

ProgramOrder::ProgramOrder(Lowering &lowering, int64_t rasterRows, int64_t clusterCtas, int64_t clusterAxis,
                           bool keepsReciprocals)
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
  if (sizes.size() < 2) return;
  const Num last = sizes[0] - (sizes[0] - 1) / this->rasterRows * this->rasterRows;
  for (Num divisor : {sizes[1] * this->rasterRows, e.i32(this->rasterRows), last})
    divisors.push_back(keepsReciprocals ? Divisor::ofMany(divisor) : Divisor{divisor, {}});
}

SmallVector<Num> ProgramOrder::programAt(Num number, Num cta) const {
  if (sizes.size() < 2) return {e.wide(number)};
  const Divisor &perGroup = divisors[0], &wholeRows = divisors[1], &lastRows = divisors[2];
  const Num group = perGroup.quotientOf(number), first = group * rasterRows;
  const Num inside = number - group * perGroup.value;
  const Divisor rows = choose(sizes[0] - first < rasterRows, lastRows, wholeRows);
  const Num column = rows.quotientOf(inside);
  SmallVector<Num> place{first + (inside - column * rows.value), column};
  place[clusterAxis] = place[clusterAxis] * clusterCtas + cta;
  return {e.wide(place[0]), e.wide(place[1])};
}

} // namespace tilewright::nvptx
