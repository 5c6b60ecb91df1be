#include "compiler/cpu/passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
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

/// exp(x) = 2^n · p(f), n = round(x / ln 2), f = x - n ln 2 in two parts (Cody and Waite). p is a minimax
/// polynomial with p(0) = p'(0) = 1, off by less than 2⁻²⁷. 2^n is multiplied in two steps, so that results
/// reach from the smallest denormal to infinity. Rounding by adding 1.5·2²³ leaves n in the low bits, and
/// with it the bias of the steps' exponents. A NaN passes through every step.
///
/// With `afn`, x is a difference, which was rounded by up to |x|·2⁻²⁴, and is below 88; and results below
/// 2⁻¹²⁶ count for nothing. One step will do for 2^n then, one part for ln 2, which adds |x|·2⁻²⁸, and a
/// polynomial that is off by 2⁻²³.
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
    auto powerOfTwo = [&](Value biased) -> Value { // all but the lowest bits leave by the shift
      return b.create<arith::BitcastOp>(type, b.create<arith::ShLIOp>(biased, integer(23)));
    };

    const bool isApproximate = arith::bitEnumContainsAll(op.getFastmath(), arith::FastMathFlags::afn);
    Value x = limit(arith::CmpFPredicate::OLT, op.getOperand(), isApproximate ? -88.0f : -110.0f); // exp is 0
    if (!isApproximate) x = limit(arith::CmpFPredicate::OGT, x, 90.0f); // exp is infinite
    const float magic = 12582912.0f + (isApproximate ? 127 : 254);      // 1.5·2²³ and the biases
    Value shifted = fma(x, number(1.44269504088896341f), number(magic));
    Value n = b.create<arith::SubFOp>(shifted, number(magic));
    Value bits = b.create<arith::BitcastOp>(integers, shifted);
    auto polynomial = [&](Value f, ArrayRef<float> coefficients) {
      Value p = number(coefficients.front());
      for (float next : coefficients.drop_front())
        p = fma(p, f, number(next));
      return p;
    };

    if (isApproximate) {
      Value p = polynomial(fma(n, number(-0.693147181f), x),
                           {8.31250101e-3f, 4.18903306e-2f, 0.166671157f, 0.499992311f, 1.0f, 1.0f});
      rewriter.replaceOpWithNewOp<arith::MulFOp>(op, p, powerOfTwo(bits));
      return success();
    }
    Value f = fma(n, number(2.12194440e-4f), fma(n, number(-0.693359375f), x));
    Value p =
        polynomial(f, {1.38145394e-3f, 8.36874545e-3f, 4.1668389e-2f, 0.166665211f, 0.49999994f, 1.0f, 1.0f});
    Value half = b.create<arith::ShRUIOp>(bits, integer(1));
    p = b.create<arith::MulFOp>(p, powerOfTwo(half));
    rewriter.replaceOpWithNewOp<arith::MulFOp>(op, p, powerOfTwo(b.create<arith::SubIOp>(bits, half)));
    return success();
  }
};

/// exp(x) with `afn` where the processor takes powers of two apart. With t = x / ln 2, which is rounded as x
/// was:
///
///     exp(x) = 2^⌊t⌋ · p(f)        f = t - ⌊t⌋
///
/// p is a minimax polynomial of 2^f with p(0) = 1, off by less than 2⁻²³. Two instructions take the place of
/// five. They know 0 and the infinities, so x needs no limits.
struct ScaleExp : OpRewritePattern<math::ExpOp> {
  ScaleExp(MLIRContext *context) : OpRewritePattern(context, /*benefit=*/3) {}

  static constexpr int64_t kLanes = 16;

  LogicalResult matchAndRewrite(math::ExpOp op, PatternRewriter &rewriter) const override {
    auto type = dyn_cast<VectorType>(op.getType());
    const bool isApproximate = arith::bitEnumContainsAll(op.getFastmath(), arith::FastMathFlags::afn);
    if (!isApproximate || !type || !type.getElementType().isF32()) return failure();
    if (type.getRank() != 1 || type.getNumElements() % kLanes != 0) return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value result = op.getOperand();
    if (type.getNumElements() == kLanes) {
      result = ofRegister(b, result);
    } else {
      for (int64_t at = 0; at < type.getNumElements(); at += kLanes) {
        Value part = b.create<vector::ExtractStridedSliceOp>(op.getOperand(), at, kLanes, 1);
        result = b.create<vector::InsertStridedSliceOp>(ofRegister(b, part), result, at, 1);
      }
    }
    rewriter.replaceOp(op, result);
    return success();
  }

private:
  static Value ofRegister(ImplicitLocOpBuilder &b, Value x) {
    auto number = [&](float value) -> Value {
      return b.create<arith::ConstantOp>(DenseElementsAttr::get(cast<ShapedType>(x.getType()), value));
    };
    Value t = b.create<arith::MulFOp>(x, number(1.44269504088896341f));
    Value f =
        instruction(b, "llvm.x86.avx512.mask.reduce.ps.512", {t, b.create<arith::ConstantIntOp>(1, 32)});
    Value p = number(1.86713005e-3f);
    for (float next : {9.01703071e-3f, 5.57999127e-2f, 0.240164444f, 0.693151295f, 1.0f})
      p = b.create<vector::FMAOp>(p, f, number(next));
    return instruction(b, "llvm.x86.avx512.mask.scalef.ps.512", {p, t});
  }

  /// Of all lanes, with the usual rounding.
  static Value instruction(ImplicitLocOpBuilder &b, const char *name, SmallVector<Value> operands) {
    Type type = operands.front().getType();
    operands.push_back(operands.front());
    operands.push_back(b.create<arith::ConstantIntOp>(-1, 16));
    operands.push_back(b.create<arith::ConstantIntOp>(4, 32));
    return b.create<LLVM::CallIntrinsicOp>(TypeRange(type), b.getStringAttr(name), operands).getResult(0);
  }
};

struct ExpandMathPass : impl::ExpandMathBase<ExpandMathPass> {
  using ExpandMathBase::ExpandMathBase;

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
    if (scales) patterns.add<ScaleExp>(&getContext());
    populateMathPolynomialApproximationPatterns(patterns);
    GreedyRewriteConfig config;
    config.strictMode = GreedyRewriteStrictness::ExistingAndNewOps;
    if (failed(applyOpPatternsAndFold(ofVectors, std::move(patterns), config))) signalPassFailure();
  }
};

} // namespace

} // namespace tilewright::cpu
