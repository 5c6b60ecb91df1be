#include "compiler/passes/passes.h"
#include "compiler/passes/tile_builder.h"

using namespace mlir;

namespace tilewright {
#define GEN_PASS_DEF_DECOMPOSESOFTMAX
#include "compiler/passes/passes.h.inc"

namespace {

/// log_softmax(x) = (x - m) - log Σ exp(x - m),  m = max x
void decompose(tile::LogSoftmaxOp op) {
  TileBuilder b(op);
  Value x = op.getValue(), shifted;
  auto [m, s] = b.maxAndSum(x, &shifted);
  Value logSum = b.create<math::LogOp>(s);
  op.replaceAllUsesWith(b.create<arith::SubFOp>(shifted, b.spread(logSum, x)).getResult());
  op.erase();
}

struct DecomposeSoftmax : impl::DecomposeSoftmaxBase<DecomposeSoftmax> {
  void runOnOperation() override { getOperation().walk(decompose); }
};

} // namespace
} // namespace tilewright
