#include "compiler/passes/passes.h"
#include "compiler/passes/tile_builder.h"

using namespace mlir;

namespace tilewright {
#define GEN_PASS_DEF_DECOMPOSESOFTMAX
#include "compiler/passes/passes.h.inc"

namespace {

/// log_softmax(x) = (x - m) - log Σ exp(x - m),  m = max x
WalkResult decompose(tile::LogSoftmaxOp op) {
  if (failed(checkWidths(op))) return WalkResult::interrupt();
  TileBuilder b(op);
  Value x = op.getValue(), shifted;
  auto [m, s] = b.maxAndSum(x, &shifted);
  Value logSum = b.create<math::LogOp>(s);
  op.replaceAllUsesWith(b.create<arith::SubFOp>(shifted, b.spread(logSum, x)).getResult());
  op.erase();
  return WalkResult::advance();
}

struct DecomposeSoftmax : impl::DecomposeSoftmaxBase<DecomposeSoftmax> {
  void runOnOperation() override {
    if (getOperation().walk(decompose).wasInterrupted()) signalPassFailure();
  }
};

} // namespace
} // namespace tilewright
