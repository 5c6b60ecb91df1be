#include "compiler/cpu/index_sign.h"

#include "compiler/dialect/tile_ops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace tilewright::cpu {

using namespace mlir;

/// Expressions are looked at so many operations deep; what lies beneath is taken to be unknown.
constexpr int kDepth = 8;

/// Whether it is x - x / d · d.
static bool isRemainder(arith::SubIOp difference) {
  const Value x = difference.getLhs();
  auto multiple = difference.getRhs().getDefiningOp<arith::MulIOp>();
  const auto isQuotient = [&](Value quotient, Value divisor) {
    Operation *op = quotient.getDefiningOp();
    return op && isa<arith::DivUIOp, arith::DivSIOp>(op) && op->getOperand(0) == x &&
           op->getOperand(1) == divisor;
  };
  return multiple && (isQuotient(multiple.getLhs(), multiple.getRhs()) ||
                      isQuotient(multiple.getRhs(), multiple.getLhs()));
}

static bool isNeverNegative(Value index, int depth) {
  auto is = [&](Value operand) { return isNeverNegative(operand, depth - 1); };
  if (auto constant = getConstantIntValue(index)) return *constant >= 0;
  if (auto argument = dyn_cast<BlockArgument>(index)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    return loop && depth > 0 && index == loop.getInductionVar() && is(loop.getLowerBound());
  }
  Operation *op = index.getDefiningOp();
  if (isa<tile::ProgramIdOp, tile::DimOp, tile::InteriorOp>(op)) return true;
  if (depth == 0) return false;
  if (auto difference = dyn_cast<arith::SubIOp>(op))
    return isRemainder(difference) && is(difference.getLhs());
  if (isa<arith::MaxSIOp>(op)) return llvm::any_of(op->getOperands(), is);
  return isa<arith::AddIOp, arith::MulIOp, arith::DivUIOp, arith::DivSIOp, arith::RemUIOp, arith::RemSIOp,
             arith::MinSIOp>(op) &&
         llvm::all_of(op->getOperands(), is);
}

bool isNeverNegative(Value index) { return isNeverNegative(index, kDepth); }

} // namespace tilewright::cpu
