#include "compiler/passes/passes.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace tilewright {
#define GEN_PASS_DEF_ONLINESOFTMAX
#include "compiler/passes/passes.h.inc"

namespace {

bool reducesRows(tile::ReduceOp op, tile::ReductionKind kind) {
  return op && op.getKind() == kind && op.getAxis() == 1;
}

/// max_sum_exp(x) at the place where m = max x is made, or what an earlier match put there; null when m is
/// something else.
tile::MaxSumExpOp onlineMax(Value m, Value x, PatternRewriter &rewriter) {
  if (auto online = m.getDefiningOp<tile::MaxSumExpOp>())
    return m == online.getMax() && online.getValue() == x ? online : nullptr;
  auto max = m.getDefiningOp<tile::ReduceOp>();
  if (!reducesRows(max, tile::ReductionKind::max) || max.getValue() != x) return nullptr;
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(max);
  auto online = rewriter.create<tile::MaxSumExpOp>(max.getLoc(), x);
  rewriter.replaceOp(max, online.getMax());
  return online;
}

/// m = max x,  s = Σ exp(x - m)    ->    m, s = max_sum_exp(x)
struct SumOfShiftedExponentials : OpRewritePattern<tile::ReduceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tile::ReduceOp sum, PatternRewriter &rewriter) const override {
    if (!reducesRows(sum, tile::ReductionKind::sum)) return failure();
    auto exp = sum.getValue().getDefiningOp<math::ExpOp>();
    auto shifted = exp ? exp.getOperand().getDefiningOp<arith::SubFOp>() : nullptr;
    auto m = shifted ? shifted.getRhs().getDefiningOp<tile::BroadcastOp>() : nullptr;
    // Where the maximum is made outside of the block that sums, the sum may never be wanted.
    if (!m || m.getValue().getParentBlock() != sum->getBlock()) return failure();
    tile::MaxSumExpOp online = onlineMax(m.getValue(), shifted.getLhs(), rewriter);
    if (!online) return failure();
    rewriter.replaceOp(sum, online.getSum());
    return success();
  }
};

struct OnlineSoftmax : impl::OnlineSoftmaxBase<OnlineSoftmax> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<SumOfShiftedExponentials>(&getContext());
    if (failed(applyPatternsAndFoldGreedily(getOperation(), std::move(patterns)))) signalPassFailure();
  }
};

} // namespace
} // namespace tilewright
