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

namespace {

/// A product's registers, and what a mask makes of them.
class MaskedProduct {
public:
  MaskedProduct(Lowering &lowering, arith::SelectOp mask)
      : lowering(lowering), e(lowering.emitter()), elements(lowering.elements()), mask(mask),
        layout(lowering.layouts().of(mask.getResult())), values(elements.evaluateAll(mask.getTrueValue())) {}

  /// A number that rows have in common is asked once; of one that each row has, a row's columns are the most
  /// that have to be masked.
  void apply(arith::CmpIOp compare) {
    const int64_t rows = layout.rows->registers();
    const int64_t step = rows / lowering.layouts().of(compare.getRhs()).rows->registers();
    for (int64_t row = 0; row < rows; row += step)
      applyToRows(compare, row, step);
  }
  void finish() { elements.set(mask.getResult(), std::move(values)); }

private:
  /// Whether the comparison is false of some column of the tile in such a row of this thread (i1).
  Value excludesSome(arith::CmpIOp compare, int64_t row) {
    const int64_t columns = tile::tileType(compare.getLhs()).getDimSize(1);
    const Num begin = e.narrow(lowering.scalar(positionsOf(compare).getBegin()));
    const Num excluded = e.num(elements.evaluate(compare.getRhs(), row, 0)) - begin;
    const bool isOne = compare.getPredicate() == arith::CmpIPredicate::ne;
    return isOne ? unsignedLess(excluded, e.i32(columns)) : excluded < columns;
  }

  /// In most tiles no column is excluded: their warps go past the mask.
  void applyToRows(arith::CmpIOp compare, int64_t row, int64_t rows) {
    Value any = e.intrinsic(e.b.getI1Type(), "llvm.nvvm.vote.any.sync",
                            {e.i32(-1).value, excludesSome(compare, row)});
    const int64_t columns = layout.columns->registers();
    MutableArrayRef<Value> part = MutableArrayRef<Value>(values).slice(row * columns, rows * columns);
    auto branch = e.b.create<scf::IfOp>(TypeRange(ValueRange(part)), any, /*addThenBlock=*/true,
                                        /*addElseBlock=*/true);
    elements.within([&] {
      e.inside(branch.thenBlock(), [&] {
        SmallVector<Value> masked;
        for (int64_t r = row; r < row + rows; ++r)
          for (int64_t c = 0; c < columns; ++c)
            masked.push_back(e.b.create<arith::SelectOp>(elements.evaluate(compare.getResult(), r, c),
                                                         values[r * columns + c],
                                                         elements.evaluate(mask.getFalseValue(), r, c)));
        e.b.create<scf::YieldOp>(masked);
      });
    });
    e.inside(branch.elseBlock(), [&] { e.b.create<scf::YieldOp>(part); });
    llvm::copy(branch.getResults(), part.begin());
  }

  Lowering &lowering;
  Emitter &e;
  Elements &elements;
  arith::SelectOp mask;
  TileLayout layout;
  SmallVector<Value> values;
};

} // namespace

void maskProducts(Lowering &lowering, ArrayRef<Operation *> ops) {
  for (Operation *op : ops)
    if (auto mask = dyn_cast<arith::SelectOp>(op); mask && !lowering.elements().hasFirst(mask.getResult()))
      if (const auto comparisons = positionsThatMask(mask); !comparisons.empty()) {
        MaskedProduct product(lowering, mask);
        for (arith::CmpIOp compare : comparisons)
          product.apply(compare);
        product.finish();
      }
}

} // namespace tilewright::nvptx
