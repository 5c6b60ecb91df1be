#pragma once

#include <cstdint>

#include "compiler/element_type.h"

namespace tilewright {

class KernelBuilder;

/// Handles to values of the kernel under construction. They are cheap to copy, refer to the KernelBuilder
/// that made them, and are dead once it is. `opaque()` is the IR value, for the builder alone.
class Handle {
public:
  KernelBuilder *builder() const { return builder_; }
  void *opaque() const { return value_; }
  bool valid() const { return value_ != nullptr; }

protected:
  Handle() = default;
  Handle(KernelBuilder *builder, void *value) : builder_(builder), value_(value) {}

private:
  friend class KernelBuilder;
  KernelBuilder *builder_ = nullptr;
  void *value_ = nullptr;
};

/// A 64-bit run-time integer: a size, an offset, a program's number.
class Index : public Handle {
public:
  Index() = default;
  Index(KernelBuilder *builder, void *value) : Handle(builder, value) {}
};

/// A run-time truth value that guards a whole program's block of code (`KernelBuilder::ifThen`).
class Condition : public Handle {
public:
  Condition() = default;
  Condition(KernelBuilder *builder, void *value) : Handle(builder, value) {}
};

/// A block of numbers of rows × columns. Both are known when the kernel is compiled, but for a *long* tile's
/// columns
/// (`kWhole`): it covers whole rows of a view, and the compiler decides how it is streamed. R×1, 1×C and 1×1
/// tiles broadcast where an operator meets a larger one. Floating-point tiles are fp32: loads widen, stores
/// round to nearest.
class Tile : public Handle {
public:
  Tile() = default;
  Tile(KernelBuilder *builder, void *value) : Handle(builder, value) {}
  int64_t rows() const;
  int64_t columns() const; ///< kWhole when the tile is long
};

/// The extent of a range that covers all of a view's axis.
constexpr int64_t kWhole = -1;

/// Axis 0 counts rows, axis 1 columns.
enum class Axis { rows = 0, columns = 1 };

/// Positions [begin, begin + extent) along an axis of tiles.
struct Range {
  Axis axis = Axis::rows;
  Index begin;
  int64_t extent = 1; ///< kWhole: the rest of the row
  Index wholeSize;    ///< set when extent is kWhole

  /// The positions as i32 numbers, R×1 or 1×C. Sizes that are used with it must stay below 2^31.
  Tile positions() const;
  /// This range used along the other axis.
  Range along(Axis other) const;
};

/// A matrix operand that is never a tile: the rows (or columns) `range` of a view, over the whole of its
/// other axis.
struct Strip;

/// A tensor in memory, rank 1 or 2, rows adjacent elements. Reads outside give zero, writes outside are
/// dropped. Views of different parameters share no memory that the kernel writes; what is updated in place is
/// one output, and views made of it may be stored to and loaded in turn.
class View : public Handle {
public:
  View() = default;
  View(KernelBuilder *builder, void *value) : Handle(builder, value) {}
  int rank() const;
  ElementType element() const;
  Index dim(int axis) const;

  /// Loads a block. Rank 1: R×1 or 1×C by the range's axis.
  Tile operator[](const Range &range) const;
  Tile at(const Range &rows, const Range &columns) const;
  /// Loads the rows numbered by `index` (R×1, i32); a number outside the view gives zeros. Rank 1: R×1.
  Tile gather(const Tile &index) const;
  /// `isSparse`: hardly any of the numbers is a row's, and the others are to cost little.
  Tile gather(const Tile &index, const Range &columns, bool isSparse = false) const;

  /// The same memory with only the first `size` positions of `axis`.
  View narrowed(int axis, const Index &size) const;
  /// The same memory and rows as elements of another type, of which a row has as many as fit. Rows must
  /// begin, and lie apart, at multiples of such an element.
  View as(ElementType element) const;

  Strip rows(const Range &range) const;    ///< extent × dim(1)
  Strip columns(const Range &range) const; ///< dim(0) × extent
};

struct Strip {
  View view;
  Range range;
  bool byRows = true;      ///< `range` selects rows, the columns are whole; else the other way round
  bool transposed = false; ///< as seen by `dot`
  Strip transpose() const { return {view, range, byRows, !transposed}; }
};

Index operator+(const Index &a, const Index &b);
Index operator-(const Index &a, const Index &b);
Index operator*(const Index &a, const Index &b);
Index operator+(const Index &a, int64_t b);
Index operator-(const Index &a, int64_t b);
Index operator*(const Index &a, int64_t b);
Index operator/(const Index &a, const Index &b); ///< rounds down; a is not negative, b positive
Index operator/(const Index &a, int64_t b);
Index min(const Index &a, const Index &b);
Index max(const Index &a, const Index &b);
Condition operator<(const Index &a, const Index &b);
Condition operator==(const Index &a, const Index &b);
Condition operator!=(const Index &a, const Index &b);
Condition operator!=(const Index &a, int64_t b);

Tile operator+(const Tile &a, const Tile &b);
Tile operator-(const Tile &a, const Tile &b);
Tile operator*(const Tile &a, const Tile &b);
Tile operator/(const Tile &a, const Tile &b); ///< of fp32
Tile operator-(const Tile &a);
/// With a number of the tile's own kind (rounded to fp32, or an integer).
Tile operator+(const Tile &a, double b);
Tile operator+(double a, const Tile &b);
Tile operator-(const Tile &a, double b);
Tile operator-(double a, const Tile &b);
Tile operator*(const Tile &a, double b);
Tile operator*(double a, const Tile &b);
Tile operator/(const Tile &a, double b);
Tile operator/(double a, const Tile &b);

/// Element by element; comparisons of floats are ordered (false where either is NaN), but `!=`, which is then
/// true.
Tile operator==(const Tile &a, const Tile &b);
Tile operator!=(const Tile &a, const Tile &b);
Tile operator<(const Tile &a, const Tile &b);
Tile operator<=(const Tile &a, const Tile &b);
Tile operator>(const Tile &a, const Tile &b);
Tile operator>=(const Tile &a, const Tile &b);
Tile operator==(const Tile &a, double b);
Tile operator!=(const Tile &a, double b);
Tile operator<(const Tile &a, double b);
Tile operator<=(const Tile &a, double b);
Tile operator>(const Tile &a, double b);
Tile operator>=(const Tile &a, double b);
/// Of truth values, or of the bits of integers; a constant must fit the integers' bits.
Tile operator&(const Tile &a, const Tile &b);
Tile operator|(const Tile &a, const Tile &b);
Tile operator^(const Tile &a, const Tile &b);
Tile operator&(const Tile &a, int64_t b);
Tile operator|(const Tile &a, int64_t b);
Tile operator^(const Tile &a, int64_t b);
/// Integers moved by as many bits as `bits` says: a constant from 0 to 31 (63), or a tile, whose low 5 (6)
/// bits count. To the right the sign moves in (`>>`), or zeros (`shiftRightLogical`).
Tile operator<<(const Tile &a, const Tile &bits);
Tile operator>>(const Tile &a, const Tile &bits);
Tile shiftRightLogical(const Tile &a, const Tile &bits);
Tile operator<<(const Tile &a, int64_t bits);
Tile operator>>(const Tile &a, int64_t bits);
Tile shiftRightLogical(const Tile &a, int64_t bits);
/// The upper 32 bits of the product of i32 numbers, all seen as unsigned.
Tile mulHigh(const Tile &a, const Tile &b);
Tile mulHigh(const Tile &a, int64_t b);
Tile select(const Tile &condition, const Tile &a, const Tile &b);
Tile select(const Tile &condition, const Tile &a, double b);
Tile select(const Tile &condition, double a, const Tile &b);
Tile max(const Tile &a, const Tile &b); ///< NaN where either is
Tile min(const Tile &a, const Tile &b); ///< NaN where either is
Tile abs(const Tile &a);

/// Relative error at most 2·2⁻²³. On a GPU results below 2⁻¹²⁶ are 0, and where x is written as a difference
/// a - b, the error is at most (2 + 0.7·|x|)·2⁻²³: rounding the difference alone costs up to |x|/2 of that on
/// every target, and correcting the rest would slow down every softmax.
Tile exp(const Tile &x);
/// exp(x - shift), whose power of two a GPU makes with one multiply-add: x·log₂e - shift·log₂e. What
/// rounding the latter costs is at most 2⁻²⁴·|shift| of the result, and the same for all that share a
/// shift. Shifts are smaller than 10³⁸. Where x is a tile times a scalar of the kernel, its logarithm is that
/// tile times scalar·log₂e: rounding this factor, in place of x, costs at most 2⁻²⁴·|x|.
Tile expAbove(const Tile &x, const Tile &shift);
Tile expm1(const Tile &x);
Tile log(const Tile &x);
Tile log1p(const Tile &x);
Tile tanh(const Tile &x);
Tile erf(const Tile &x);
Tile sqrt(const Tile &x);
Tile rsqrt(const Tile &x);

/// Integers to and from fp32 (towards zero), truth values to 0 and 1, and between i32 and i64 (the low bits).
/// What an fp32 number outside the integers' range gives is not specified.
Tile cast(const Tile &x, ElementType element);
/// fp32 numbers rounded to what a 16-bit `element` can hold, as a store to such a view rounds them.
Tile rounded(const Tile &x, ElementType element);

/// Reductions along an axis: R×C gives R×1 along columns, 1×C along rows.
Tile sum(const Tile &x, Axis axis);
Tile max(const Tile &x, Axis axis); ///< NaN where any element is
Tile min(const Tile &x, Axis axis);

/// x_ij - log Σ_k exp(x_ik).
Tile logSoftmax(const Tile &x);
/// x_{i,index_i}, R×1; zero where the index (R×1, i32) lies outside the row.
Tile gather(const Tile &x, const Tile &index);
/// The adjoint of gather: a tile of `like`'s shape with value_i (R×1) at column index_i and zero elsewhere.
Tile scatter(const Tile &value, const Tile &index, const Tile &like);
Tile transpose(const Tile &x);

/// Which of several parts of a product's shared axis, all about as long; they are cut at multiples of 64.
struct Part {
  Index number;
  int64_t of = 1;
};

/// Matrix products, accumulated in fp32: M×K · K×N. Strips contract over the whole shared axis of their
/// views, or over a part of it.
Tile dot(const Strip &a, const Strip &b);
Tile dot(const Strip &a, const Strip &b, const Part &part);
Tile dot(const Tile &a, const Tile &b);

} // namespace tilewright
