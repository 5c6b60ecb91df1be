#pragma once

#include "compiler/nvptx/function_lowering.h"

namespace tilewright::nvptx {

/// The order in which the CTAs of a persistent grid take a kernel's programs. With two axes, programs of
/// `rasterRows` rows of the grid go column by column, so that those which run together share strips of both
/// operands, which stay in the second-level cache:
///
///     rasterRows = 2      0 2 4 6 …
///                         1 3 5 7 …
class ProgramOrder {
public:
  /// At the builder's place, where the kernel's parameters are known.
  ProgramOrder(FunctionLowering &lowering, int64_t rasterRows);

  Num count() const { return total; } ///< i32
  /// Numbers along the grid's axes (i64) of the program that is the `number`-th in order.
  SmallVector<Num> programAt(Num number) const;

private:
  Emitter &e;
  SmallVector<Num> sizes; ///< i32: programs along each axis
  Num total;
  int64_t rasterRows;
};

} // namespace tilewright::nvptx
