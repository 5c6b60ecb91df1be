#include "compiler/cpu/passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/TypeSwitch.h"

namespace tilewright::cpu {

#define GEN_PASS_DEF_EXPANDMATH
#include "compiler/cpu/passes.h.inc"

using namespace mlir;

/// The C library's single-precision function, or null where the processor has an instruction.
static const char *libraryName(Operation *op) {
  return llvm::TypeSwitch<Operation *, const char *>(op)
      .Case([](math::ExpOp) { return "expf"; })
      .Case([](math::ExpM1Op) { return "expm1f"; })
      .Case([](math::LogOp) { return "logf"; })
      .Case([](math::Log1pOp) { return "log1pf"; })
      .Case([](math::TanhOp) { return "tanhf"; })
      .Case([](math::ErfOp) { return "erff"; })
      .Default([](Operation *) { return nullptr; });
}

static void callLibrary(Operation *op, const char *name, ModuleOp module) {
  OpBuilder builder(op);
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function) {
    OpBuilder atTop = OpBuilder::atBlockBegin(module.getBody());
    auto type = builder.getFunctionType({builder.getF32Type()}, {builder.getF32Type()});
    function = atTop.create<func::FuncOp>(module.getLoc(), name, type);
    function.setPrivate();
  }
  auto call = builder.create<func::CallOp>(op->getLoc(), function, op->getOperands());
  op->replaceAllUsesWith(call);
  op->erase();
}

namespace {

struct ExpandMathPass : impl::ExpandMathBase<ExpandMathPass> {
  void runOnOperation() override {
    SmallVector<Operation *> ofVectors, ofScalars;
    getOperation().walk([&](Operation *op) {
      if (isa<math::MathDialect>(op->getDialect()))
        (isa<VectorType>(op->getResult(0).getType()) ? ofVectors : ofScalars).push_back(op);
    });
    for (Operation *op : ofScalars)
      if (const char *name = libraryName(op)) callLibrary(op, name, getOperation());

    RewritePatternSet patterns(&getContext());
    populateMathPolynomialApproximationPatterns(patterns);
    GreedyRewriteConfig config;
    config.strictMode = GreedyRewriteStrictness::ExistingAndNewOps;
    if (failed(applyOpPatternsAndFold(ofVectors, std::move(patterns), config))) signalPassFailure();
  }
};

} // namespace

} // namespace tilewright::cpu
