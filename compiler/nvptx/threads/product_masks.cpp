#include "compiler/nvptx/threads/product_masks.h"
#include "compiler/nvptx/tile_gpu/tile_gpu.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::nvptx {

using namespace mlir;

/// The comparisons of which a condition is the conjunction.
static void collectComparisons(Value condition, SmallVector<arith::CmpIOp> &comparisons, bool &areAll) {
  condition = withoutBroadcasts(condition);
  if (auto both = condition.getDefiningOp<arith::AndIOp>()) {
    collectComparisons(both.getLhs(), comparisons, areAll);
    collectComparisons(both.getRhs(), comparisons, areAll);
  } else if (auto compare = condition.getDefiningOp<arith::CmpIOp>()) {
    comparisons.push_back(compare);
  } else {
    areAll = false;
  }
}

/// Whether the columns that a comparison is false of can be told of a row at once: one of them, or those from
/// a number on.
static bool excludesRange(arith::CmpIOp compare) {
  tile::IotaOp positions = positionsOf(compare);
  const bool isOfRows = tile::tileType(withoutBroadcasts(compare.getRhs())).getDimSize(1) == 1;
  using Predicate = arith::CmpIPredicate;
  return positions && positions.getAxis() == 1 && isOfRows &&
         (compare.getPredicate() == Predicate::ne || compare.getPredicate() == Predicate::slt);
}

/// What a product's mask is made of; nothing where it is no such mask.
static SmallVector<arith::CmpIOp> positionsThatMask(arith::SelectOp mask) {
  SmallVector<arith::CmpIOp> comparisons;
  Value product = mask.getTrueValue();
  if (auto convert = product.getDefiningOp<ConvertLayoutOp>(); convert && convert->hasOneUse())
    product = convert.getValue();
  // Where it is needed unmasked as well, there are no registers for both.
  bool areAll = isa_and_present<tile::ContractOp>(product.getDefiningOp()) && product.hasOneUse();
  collectComparisons(mask.getCondition(), comparisons, areAll);
  if (!areAll || !llvm::all_of(comparisons, excludesRange)) comparisons.clear();
  return comparisons;
}

/// Whether a comparison is false of some column of the tile, in this thread's rows (i1).
static Value excludesSome(Lowering &lowering, arith::CmpIOp compare) {
  Emitter &e = lowering.emitter();
  const int64_t columns = tile::tileType(compare.getLhs()).getDimSize(1);
  const Num begin = e.narrow(lowering.scalar(positionsOf(compare).getBegin()));
  Value some = e.truth(false);
  for (int64_t row = 0; row < lowering.layouts().of(compare.getRhs()).rows->registers(); ++row) {
    const Num excluded = e.num(lowering.elements().evaluate(compare.getRhs(), row, 0)) - begin;
    const bool isOne = compare.getPredicate() == arith::CmpIPredicate::ne;
    some = e.either(some, isOne ? unsignedLess(excluded, e.i32(columns)) : excluded < columns);
  }
  return some;
}

/// Most tiles have no column that the mask excludes: their warps go past it.
static void maskProduct(Lowering &lowering, arith::SelectOp mask, ArrayRef<arith::CmpIOp> comparisons) {
  Emitter &e = lowering.emitter();
  Elements &elements = lowering.elements();
  Value some = e.truth(false);
  for (arith::CmpIOp compare : comparisons)
    some = e.either(some, excludesSome(lowering, compare));
  SmallVector<Value> product = elements.evaluateAll(mask.getTrueValue());
  Value any = e.intrinsic(e.b.getI1Type(), "llvm.nvvm.vote.any.sync", {e.i32(-1).value, some});
  auto branch = e.b.create<scf::IfOp>(TypeRange(ValueRange(product)), any, /*addThenBlock=*/true,
                                      /*addElseBlock=*/true);
  elements.within([&] {
    e.inside(branch.thenBlock(), [&] { e.b.create<scf::YieldOp>(elements.evaluateAll(mask.getResult())); });
  });
  e.inside(branch.elseBlock(), [&] { e.b.create<scf::YieldOp>(product); });
  elements.set(mask.getResult(), SmallVector<Value>(branch.getResults()));
}

void maskProducts(Lowering &lowering, ArrayRef<Operation *> ops) {
  for (Operation *op : ops)
    if (auto mask = dyn_cast<arith::SelectOp>(op); mask && !lowering.elements().hasFirst(mask.getResult()))
      if (const auto comparisons = positionsThatMask(mask); !comparisons.empty())
        maskProduct(lowering, mask, comparisons);
}

} // namespace tilewright::nvptx
