#include "compiler/cpu/passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
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

/// exp(x) = 2^n · p(f), n = round(x / ln 2), f = x - n ln 2 in two parts (Cody and Waite). p is the
/// polynomial of the Cephes library's expf. 2^n is multiplied in two steps, so that results reach from the
/// smallest denormal to infinity. Rounding by adding 1.5·2²³ leaves n in the low bits; a NaN passes through
/// every step.
struct ExpandExp : OpRewritePattern<math::ExpOp> {
  ExpandExp(MLIRContext *context) : OpRewritePattern(context, /*benefit=*/2) {}

  LogicalResult matchAndRewrite(math::ExpOp op, PatternRewriter &rewriter) const override {
    auto type = dyn_cast<VectorType>(op.getType());
    if (!type || !type.getElementType().isF32()) return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    auto integers = type.clone(b.getI32Type());
    auto number = [&](float value) -> Value {
      return b.create<arith::ConstantOp>(DenseElementsAttr::get(type, value));
    };
    auto integer = [&](int32_t value) -> Value {
      return b.create<arith::ConstantOp>(DenseElementsAttr::get(integers, value));
    };
    auto fma = [&](Value x, Value y, Value z) -> Value { return b.create<vector::FMAOp>(x, y, z); };
    auto limit = [&](arith::CmpFPredicate beyond, Value x, float bound) -> Value {
      Value isBeyond = b.create<arith::CmpFOp>(beyond, x, number(bound));
      return b.create<arith::SelectOp>(isBeyond, number(bound), x);
    };
    auto powerOfTwo = [&](Value exponent) -> Value {
      Value biased = b.create<arith::AddIOp>(exponent, integer(127));
      return b.create<arith::BitcastOp>(type, b.create<arith::ShLIOp>(biased, integer(23)));
    };

    Value x = limit(arith::CmpFPredicate::OLT, op.getOperand(), -110.0f); // exp is 0
    x = limit(arith::CmpFPredicate::OGT, x, 90.0f);                       // exp is infinite
    const float magic = 12582912.0f;                                      // 1.5·2²³
    Value shifted = fma(x, number(1.44269504088896341f), number(magic));
    Value rounded = b.create<arith::SubFOp>(shifted, number(magic));
    Value f = fma(rounded, number(-0.693359375f), x);
    f = fma(rounded, number(2.12194440e-4f), f);

    // Pairs of terms side by side (Estrin): half as long a chain as one term after the other.
    Value square = b.create<arith::MulFOp>(f, f);
    auto pair = [&](float upper, float lower) { return fma(number(upper), f, number(lower)); };
    Value p = fma(pair(1.9875691500e-4f, 1.3981999507e-3f), square, pair(8.3334519073e-3f, 4.1665795894e-2f));
    p = fma(p, square, pair(1.6666665459e-1f, 5.0000001201e-1f));
    p = fma(p, square, f);
    p = b.create<arith::AddFOp>(p, number(1.0f));

    // The bits of 1.5·2²³ + n, and half of them: what is there beside n and n/2 leaves by the shift of 23.
    Value bits = b.create<arith::BitcastOp>(integers, shifted);
    Value half = b.create<arith::ShRUIOp>(bits, integer(1));
    Value rest = b.create<arith::SubIOp>(bits, half);
    p = b.create<arith::MulFOp>(p, powerOfTwo(half));
    rewriter.replaceOpWithNewOp<arith::MulFOp>(op, p, powerOfTwo(rest));
    return success();
  }
};

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
    patterns.add<ExpandExp>(&getContext());
    populateMathPolynomialApproximationPatterns(patterns);
    GreedyRewriteConfig config;
    config.strictMode = GreedyRewriteStrictness::ExistingAndNewOps;
    if (failed(applyOpPatternsAndFold(ofVectors, std::move(patterns), config))) signalPassFailure();
  }
};

} // namespace

} // namespace tilewright::cpu
