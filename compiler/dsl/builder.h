#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/dsl/value.h"

namespace tilewright {

/// A kernel as its author wrote it. `name` and `specialisation` together name the body: two kernels with both
/// equal must build the same code in one process.
struct Kernel {
  std::string name;           ///< a C identifier, the symbol of the compiled kernel
  std::string specialisation; ///< everything the body depends on: element types, block shape, options
  std::function<void(KernelBuilder &)> body;
};

inline Kernel defineKernel(std::string name, std::string specialisation,
                           std::function<void(KernelBuilder &)> body) {
  return {std::move(name), std::move(specialisation), std::move(body)};
}

/// Writes one kernel: first its parameters, then `block`, then the mathematics of one program's block. Misuse
/// (shapes that do not fit, a parameter after the body began) is recorded and becomes the Status of
/// `compile`.
class KernelBuilder {
public:
  struct Impl;
  explicit KernelBuilder(Impl &impl) : impl_(impl) {}
  KernelBuilder(const KernelBuilder &) = delete;
  KernelBuilder &operator=(const KernelBuilder &) = delete;

  /// Parameters, in the order in which launches pass them.
  View input(const std::string &name, ElementType element, int rank);
  View output(const std::string &name, ElementType element, int rank); ///< may be read too
  Index index(const std::string &name);
  Tile scalar(const std::string &name); ///< fp32, 1×1

  /// Makes the launch grid one program per block of a dimension, and gives this program's positions. `rows`
  /// only: a one-axis grid; both: axis 0 counts row blocks and varies fastest. At most one call of any of
  /// these in a kernel.
  Range blockRows(const Index &size, int64_t rows);
  Range blockColumns(const Index &size, int64_t columns);
  std::pair<Range, Range> block(const Index &rowsSize, const Index &columnsSize, int64_t rows,
                                int64_t columns);
  Index programId(int axis);

  /// All of a row of `size` elements: loads with it are long tiles.
  Range whole(const Index &size);
  /// [begin, begin + extent) along an axis.
  Range range(Axis axis, const Index &begin, int64_t extent);
  Index constant(int64_t value);
  /// A 1×1 tile's integer as an Index.
  Index toIndex(const Tile &tile);
  /// An Index as a 1×1 tile of i32 or i64.
  Tile toTile(const Index &index, ElementType element);
  /// A 1×1 truth value as a Condition.
  Condition toCondition(const Tile &tile);

  /// Rounds to the view's element type.
  void store(const View &view, const Range &range, const Tile &tile);
  void store(const View &view, const Range &rows, const Range &columns, const Tile &tile);
  /// Adds to what is there. No two programs of a launch may add to one element.
  void add(const View &view, const Range &rows, const Range &columns, const Tile &tile);
  /// Row i of the tile goes to row index_i (R×1, i32) of the view; a number outside the view drops the row.
  void scatter(const View &view, const Tile &index, const Tile &tile);
  void scatter(const View &view, const Tile &index, const Range &columns, const Tile &tile);

  void ifThen(const Condition &condition, const std::function<void()> &body);
  /// for (i = begin; i < end; i += step) carried = body(i, carried); returns the last carried tiles.
  std::vector<Tile> forRange(const Index &begin, const Index &end, int64_t step,
                             const std::vector<Tile> &carried,
                             const std::function<std::vector<Tile>(Index, const std::vector<Tile> &)> &body);

  Impl &impl() { return impl_; }

private:
  Impl &impl_;
};

} // namespace tilewright
