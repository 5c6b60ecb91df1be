#pragma once

#include "mlir/IR/Value.h"

namespace tilewright::cpu {

/// Whether an index of tile IR can be seen never to be negative: a size, a program's number, and what sums,
/// products, quotients and extremes make of such numbers. False where that is not known, as of parameters and
/// of differences.
bool isNeverNegative(mlir::Value index);

} // namespace tilewright::cpu
