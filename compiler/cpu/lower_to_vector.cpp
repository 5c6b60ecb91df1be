#include "compiler/cpu/function_lowering.h"
#include "compiler/cpu/passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace tilewright::cpu {

#define GEN_PASS_DEF_LOWERTOVECTOR
#include "compiler/cpu/passes.h.inc"

using namespace mlir;

namespace {

struct LowerToVectorPass : impl::LowerToVectorBase<LowerToVectorPass> {
  using LowerToVectorBase::LowerToVectorBase;

  void runOnOperation() override {
    Machine machine;
    machine.lanes = lanes;
    machine.registers = registers;
    machine.bf16Dot = bf16Dot;
    machine.tiles = tiles;
    machine.contractionStep = contractionStep;
    machine.tf32 = tf32;
    for (auto kernel : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (!kernel->hasAttr(tile::kKernelAttr)) continue;
      if (failed(checkStatic(kernel)) || failed(FunctionLowering(kernel, machine).run()))
        return signalPassFailure();
    }
  }

  static LogicalResult checkStatic(func::FuncOp kernel) {
    WalkResult result = kernel.walk([](Operation *op) -> WalkResult {
      for (Value value : op->getResults())
        if (auto type = tileType(value); type && !type.hasStaticShape())
          return op->emitError("makes a long tile; lower-to-vector expects stream-rows to have run");
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }
};

} // namespace

} // namespace tilewright::cpu
