#pragma once

#include <optional>

#include "compiler/nvptx/threads/lowering.h"

namespace tilewright::nvptx {

/// An i32 by which others, which are not negative, are divided.
struct Divisor {
  Num value;
  /// (2^32 - 1) / value, rounded down: quotients are then multiplications (Granlund and Montgomery, Division
  /// by Invariant Integers using Multiplication, 1994), and finding it a division.
  std::optional<Num> reciprocal;

  static Divisor ofMany(Num value); ///< with the reciprocal
  Num quotientOf(Num number) const;
};

/// The order in which the CTAs of a persistent grid take a kernel's programs. With two axes, programs of
/// `rasterRows` rows of the grid go column by column, so that those which run together share strips of both
/// operands, which stay in the second-level cache:
///
///     rasterRows = 2      0 2 4 6 …
///                         1 3 5 7 …
///
/// CTAs of a cluster take neighbours along an axis; the last program along it may then be one that is not
/// there.
class ProgramOrder {
public:
  /// At the builder's place, where the kernel's parameters are known. `keepsReciprocals`: programs are found
  /// without divisions, for two registers more.
  ProgramOrder(Lowering &lowering, int64_t rasterRows, int64_t clusterCtas, int64_t clusterAxis,
               bool keepsReciprocals);

  Num count() const { return total; } ///< i32: programs that a cluster takes together count as one
  /// Numbers along the grid's axes (i64) of the program that is the `number`-th in order, for this CTA (i32)
  /// of its cluster.
  SmallVector<Num> programAt(Num number, Num cta) const;

private:
  Emitter &e;
  SmallVector<Num> sizes; ///< i32: programs along each axis, those of a cluster as one
  Num total;
  int64_t rasterRows, clusterCtas, clusterAxis;
  /// With two axes: the programs of a group of rasterRows rows of the grid; its rows; those of the last
  /// group.
  SmallVector<Divisor> divisors;
};

} // namespace tilewright::nvptx
