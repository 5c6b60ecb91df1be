#pragma once

#include <functional>
#include <map>
#include <memory>
#include <tuple>

#include "compiler/dsl/builder.h"
#include "tests/fuzz/guarded_tensor.h"

namespace tilewright::test {

/// The tensors that random kernels read. Their numbers are small integers, which every type holds exactly.
struct Inputs {
  GuardedTensor x, b, label;    ///< a matrix; a vector as long as its rows; an i32 for each of them
  GuardedTensor left, right;    ///< of products: rows × depth, columns × depth
  bool leftTurned, rightTurned; ///< or they lie in memory the other way round

  double leftAt(int64_t i, int64_t d) const { return leftTurned ? left.at(d, i) : left.at(i, d); }
  double rightAt(int64_t i, int64_t d) const { return rightTurned ? right.at(d, i) : right.at(i, d); }
};

struct Term;

/// One kernel under construction.
struct Building {
  KernelBuilder &k;
  View x, b, label, left, right;
  bool leftTurned, rightTurned; ///< see Inputs
  Range rows, columns;          ///< of the program's block
  std::map<const Term *, Tile> made = {};
};

/// Where a program's block lies.
struct Place {
  int64_t row, column;
};

/// One operation of a random kernel: how the DSL says it, and what it is. A tile of one row or column stands
/// for as many alike.
struct Term {
  int64_t rows, columns;
  double bound; ///< of its numbers' size
  std::function<Tile(Building &)> make;
  std::function<double(const Inputs &, Place, int64_t, int64_t)> at;

  Tile tile(Building &building) const {
    if (const auto found = building.made.find(this); found != building.made.end()) return found->second;
    const Tile tile = make(building);
    building.made.emplace(this, tile);
    return tile;
  }
  double value(const Inputs &inputs, Place place, int64_t r, int64_t c) const {
    const int64_t row = rows == 1 ? 0 : r, column = columns == 1 ? 0 : c;
    const auto [found, isNew] = known_.try_emplace({place.row, place.column, row, column}, 0.0);
    if (isNew) found->second = at(inputs, place, row, column);
    return found->second;
  }

  mutable std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, double> known_ = {};
};
using TermRef = std::shared_ptr<const Term>;

} // namespace tilewright::test
