#include "compiler/nvptx/passes.h"

#include <optional>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tilewright::nvptx {

#define GEN_PASS_DEF_EXPANDMATHNVPTX
#include "compiler/nvptx/passes.h.inc"

using namespace mlir;

namespace {

/// Before the polynomials of the same functions.
constexpr int kBenefit = 2;

Value constant(ImplicitLocOpBuilder &b, float value) {
  return b.create<arith::ConstantFloatOp>(APFloat(value), b.getF32Type());
}

Value approximate(ImplicitLocOpBuilder &b, const char *intrinsic, Value x) {
  return b.create<LLVM::CallIntrinsicOp>(b.getF32Type(), b.getStringAttr(intrinsic), x).getResult(0);
}

bool mayContract(math::ExpOp op) {
  return arith::bitEnumContainsAny(op.getFastmath(), arith::FastMathFlags::contract);
}

/// n, where 2^n is all that a value is multiplied by, and nothing else becomes of it.
std::optional<int> onlyScale(Value value) {
  auto product = value.hasOneUse() ? dyn_cast<arith::MulFOp>(*value.user_begin()) : arith::MulFOp();
  APFloat factor(0.0f);
  if (!product) return std::nullopt;
  Value other = product.getLhs() == value ? product.getRhs() : product.getLhs();
  if (!matchPattern(other, m_ConstantFloat(&factor))) return std::nullopt;
  const int n = factor.getExactLog2();
  return n == INT_MIN ? std::nullopt : std::optional(n);
}

/// A product of which nothing else is made, in two: a kernel's scalar or a constant, by which a tile's
/// numbers are all multiplied, and the other factor. Null where there is none.
std::pair<Value, Value> scaledNumber(Value value) {
  auto product = value.hasOneUse() ? value.getDefiningOp<arith::MulFOp>() : arith::MulFOp();
  auto isScalar = [](Value x) {
    auto argument = dyn_cast<BlockArgument>(x);
    return argument ? isa<func::FuncOp>(argument.getOwner()->getParentOp())
                    : bool(x.getDefiningOp<arith::ConstantOp>());
  };
  if (product && isScalar(product.getRhs())) return {product.getRhs(), product.getLhs()};
  if (product && isScalar(product.getLhs())) return {product.getLhs(), product.getRhs()};
  return {};
}

struct ExpandExp : OpRewritePattern<math::ExpOp> {
  using OpRewritePattern::OpRewritePattern;

  /// log2 e is taken to 48 bits, for the error of x·log2 e would be multiplied by x. Where 2^y is 0 or ∞, or
  /// x a NaN, it stays uncorrected: ∞·0 is NaN. A difference x = a - b was itself rounded to one part in 2²⁴,
  /// which costs the result |x|·2⁻²⁴; its product with log2 e stays uncorrected, which is as much again. It
  /// may be contracted: a·log2 e - b·log2 e, of a = c·d with a scalar c d·(c·log2 e) - b·log2 e, and of what
  /// is then multiplied by 2^n, a·log2 e - (b·log2 e - n).
  LogicalResult matchAndRewrite(math::ExpOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32()) return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value x = op.getOperand();
    auto power = [&](Value y) { return approximate(b, "llvm.nvvm.ex2.approx.ftz.f", y); };
    Value log2e = constant(b, 1.44269502e+00f), log2eRest = constant(b, 1.92596303e-08f);
    auto difference = x.getDefiningOp<arith::SubFOp>();
    if (difference && mayContract(op)) {
      const std::optional<int> scale = onlyScale(op);
      Value less = constant(b, -1.44269502e+00f);
      Value rest = scale ? Value(b.create<math::FmaOp>(difference.getRhs(), less,
                                                       constant(b, static_cast<float>(*scale))))
                         : Value(b.create<arith::MulFOp>(difference.getRhs(), less));
      Operation *result = scale ? *op->user_begin() : op;
      auto [factor, number] = scaledNumber(difference.getLhs());
      Value y = factor ? b.create<math::FmaOp>(number, b.create<arith::MulFOp>(factor, log2e), rest)
                       : b.create<math::FmaOp>(difference.getLhs(), log2e, rest);
      rewriter.replaceOp(result, power(y));
      return success();
    }
    Value y = b.create<arith::MulFOp>(x, log2e);
    if (difference) {
      rewriter.replaceOp(op, power(y));
      return success();
    }
    Value rest = b.create<math::FmaOp>(x, log2e, b.create<arith::NegFOp>(y));
    rest = b.create<math::FmaOp>(x, log2eRest, rest);
    Value correction = b.create<arith::MulFOp>(rest, constant(b, 0.693147182f));
    Value isOrdinary =
        b.create<arith::CmpFOp>(arith::CmpFPredicate::OLT, b.create<math::AbsFOp>(y), constant(b, 128));
    Value uncorrected = power(y), corrected = b.create<math::FmaOp>(uncorrected, correction, uncorrected);
    rewriter.replaceOpWithNewOp<arith::SelectOp>(op, isOrdinary, corrected, uncorrected);
    return success();
  }
};

struct ExpandExpM1 : OpRewritePattern<math::ExpM1Op> {
  using OpRewritePattern::OpRewritePattern;

  /// Its series to x⁸ below 1/2, and from there on exp x - 1. MLIR's expansion divides, and for x = 0 it
  /// divides 0 by 0.
  LogicalResult matchAndRewrite(math::ExpM1Op op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32()) return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value x = op.getOperand(), series = constant(b, 1.0f / 40320);
    for (float coefficient : {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 1.0f / 2})
      series = b.create<math::FmaOp>(series, x, constant(b, coefficient));
    Value small = b.create<math::FmaOp>(b.create<arith::MulFOp>(x, x), series, x);
    Value large = b.create<arith::SubFOp>(b.create<math::ExpOp>(x), constant(b, 1));
    Value isSmall =
        b.create<arith::CmpFOp>(arith::CmpFPredicate::OLT, b.create<math::AbsFOp>(x), constant(b, 0.5f));
    rewriter.replaceOpWithNewOp<arith::SelectOp>(op, isSmall, small, large);
    return success();
  }
};

struct ExpandTanh : OpRewritePattern<math::TanhOp> {
  using OpRewritePattern::OpRewritePattern;

  /// tanh x = 1 - 2 / (exp(2x) + 1), where that does not cancel; its series to x⁹ below 1/4.
  LogicalResult matchAndRewrite(math::TanhOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32()) return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value x = op.getOperand();
    auto multiply = [&](Value p, Value q) -> Value { return b.create<arith::MulFOp>(p, q); };
    auto fma = [&](Value p, Value q, Value r) -> Value { return b.create<math::FmaOp>(p, q, r); };
    Value power = approximate(b, "llvm.nvvm.ex2.approx.ftz.f", multiply(x, constant(b, 2 * 1.44269502e+00f)));
    Value one = constant(b, 1);
    Value inverse = approximate(b, "llvm.nvvm.rcp.approx.ftz.f", b.create<arith::AddFOp>(power, one));
    Value large = fma(inverse, constant(b, -2), one);
    Value square = multiply(x, x), series = constant(b, 62.0f / 2835);
    for (float coefficient : {-17.0f / 315, 2.0f / 15, -1.0f / 3})
      series = fma(series, square, constant(b, coefficient));
    Value small = fma(multiply(x, square), series, x);
    Value isSmall =
        b.create<arith::CmpFOp>(arith::CmpFPredicate::OLT, b.create<math::AbsFOp>(x), constant(b, 0.25f));
    rewriter.replaceOpWithNewOp<arith::SelectOp>(op, isSmall, small, large);
    return success();
  }
};

struct ExpandErf : OpRewritePattern<math::ErfOp> {
  using OpRewritePattern::OpRewritePattern;

  /// 1 + erf x = erfc(-x), where erfc |x| = 2^(-|x| P(|x|)): P of degree 7, fitted on [0, 4] as Q below. What
  /// is small for negative x is so without cancelling. Within 5.4·2⁻²⁴; from -4 to 0 within 4·10⁻⁵ of itself,
  /// and beyond it goes on to fall.
  static Value onePlusErf(ImplicitLocOpBuilder &b, Value x) {
    Value size = b.create<math::AbsFOp>(x), sum = constant(b, 9.65750223e-06f);
    for (float coefficient : {-0.000119461067f, 0.000319063722f, 0.00287074503f, -0.0302242227f, 0.149421915f,
                              0.918215513f, 1.6279223f})
      sum = b.create<math::FmaOp>(sum, size, constant(b, coefficient));
    Value power = b.create<arith::MulFOp>(sum, b.create<arith::NegFOp>(size));
    Value rest = approximate(b, "llvm.nvvm.ex2.approx.ftz.f", power);
    Value isNegative = b.create<arith::CmpFOp>(arith::CmpFPredicate::OLT, x, constant(b, 0));
    return b.create<arith::SelectOp>(isNegative, rest, b.create<arith::SubFOp>(constant(b, 2), rest));
  }

  /// x·Q(s), s = 2x²/15 - 1 from -1 to 1: a polynomial of degree 14, fitted for the smallest relative error
  /// by weighted least squares (Lawson); within 5.1·2⁻²⁴ of erf x, relatively. From √15 on erf x rounds to
  /// ±1, where it stays.
  LogicalResult matchAndRewrite(math::ErfOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32()) return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value x = op.getOperand();
    auto sum = op->hasOneUse() ? dyn_cast<arith::AddFOp>(*op->user_begin()) : arith::AddFOp();
    if (sum && (matchPattern(sum.getLhs(), m_OneFloat()) || matchPattern(sum.getRhs(), m_OneFloat()))) {
      b.setInsertionPoint(sum);
      rewriter.replaceOp(sum, onePlusErf(b, x));
      rewriter.eraseOp(op);
      return success();
    }
    Value square = b.create<arith::MinimumFOp>(b.create<arith::MulFOp>(x, x), constant(b, 15));
    Value s = b.create<math::FmaOp>(square, constant(b, 2.0f / 15), constant(b, -1));
    Value polynomial = constant(b, 0.00154979678f);
    for (float coefficient : {-0.00373200537f, 0.00240086904f, -0.00317072449f, 0.0120618669f, -0.0213893764f,
                              0.0288232937f, -0.0408904627f, 0.0570623688f, -0.073683545f, 0.090770483f,
                              -0.109980941f, 0.13551119f, -0.182243034f, 0.365109116f})
      polynomial = b.create<math::FmaOp>(polynomial, s, constant(b, coefficient));
    Value bounded = b.create<arith::MinimumFOp>(b.create<arith::MulFOp>(x, polynomial), constant(b, 1));
    rewriter.replaceOpWithNewOp<arith::MaximumFOp>(op, bounded, constant(b, -1));
    return success();
  }
};

struct ExpandLog : OpRewritePattern<math::LogOp> {
  using OpRewritePattern::OpRewritePattern;

  /// A number that was bf16 in memory is known to one part in 2⁹: next to that lg2.approx is exact.
  LogicalResult matchAndRewrite(math::LogOp op, PatternRewriter &rewriter) const override {
    auto widened = op.getOperand().getDefiningOp<arith::BitcastOp>();
    auto shifted = widened ? widened.getIn().getDefiningOp<arith::ShLIOp>() : arith::ShLIOp();
    if (!op.getType().isF32() || !shifted || getConstantIntValue(shifted.getRhs()) != 16) return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value power = approximate(b, "llvm.nvvm.lg2.approx.ftz.f", op.getOperand());
    rewriter.replaceOpWithNewOp<arith::MulFOp>(op, power, constant(b, 0.693147182f));
    return success();
  }
};

struct ExpandRsqrt : OpRewritePattern<math::RsqrtOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::RsqrtOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32()) return failure();
    rewriter.replaceOpWithNewOp<LLVM::CallIntrinsicOp>(
        op, op.getType(), rewriter.getStringAttr("llvm.nvvm.rsqrt.approx.f"), op.getOperand());
    return success();
  }
};

struct ExpandMathNvptxPass : impl::ExpandMathNvptxBase<ExpandMathNvptxPass> {
  void runOnOperation() override {
    SmallVector<Operation *> functions;
    getOperation().walk([&](Operation *op) {
      if (isa<math::MathDialect>(op->getDialect()) && !isa<math::FmaOp, math::AbsFOp, math::SqrtOp>(op))
        functions.push_back(op);
    });
    RewritePatternSet patterns(&getContext());
    patterns.add<ExpandExp, ExpandExpM1, ExpandTanh, ExpandErf, ExpandLog, ExpandRsqrt>(&getContext(),
                                                                                        kBenefit);
    populateMathPolynomialApproximationPatterns(patterns);
    GreedyRewriteConfig config;
    config.strictMode = GreedyRewriteStrictness::ExistingAndNewOps;
    if (failed(applyOpPatternsAndFold(functions, std::move(patterns), config))) signalPassFailure();
  }
};

} // namespace

} // namespace tilewright::nvptx
