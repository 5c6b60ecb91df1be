#pragma once

#include <random>
#include <vector>

#include "tests/fuzz/term.h"

namespace tilewright::test {

/// What a random kernel looks like.
enum class Shape {
  blocks,   ///< blocks of a matrix that begin and end anywhere, ahead of it and behind it, too
  products, ///< the same with products of strips
  rows,     ///< whole rows, of any length
};

/// Draws the operations of one kernel. One seed gives one kernel.
class RandomTerms {
public:
  RandomTerms(Shape shape, unsigned seed);

  Shape shape;
  int64_t height, width;              ///< of a block
  int64_t allRows, allColumns, depth; ///< of the tensors
  std::vector<TermRef> terms;         ///< in order; each uses earlier ones

  int64_t pick(int64_t count) { return static_cast<int64_t>(random_() % count); }
  template <class T> T oneOf(std::initializer_list<T> values) { return values.begin()[pick(values.size())]; }
  /// By how much a block is moved: 0 where there are whole rows.
  int64_t shift() { return shape == Shape::rows ? 0 : pick(24) - 12; }
  TermRef any() { return terms[pick(terms.size())]; }

private:
  TermRef leaf();
  TermRef loaded();
  TermRef product();
  TermRef operation();
  TermRef elementwise(const TermRef &a, const TermRef &b);
  TermRef chosen(const TermRef &a, const TermRef &b, const TermRef &c);
  TermRef asInteger(const TermRef &a);
  template <class T> TermRef ofBits(const TermRef &a, const TermRef &other);
  TermRef gathered(const TermRef &a);
  TermRef scattered(const TermRef &a);
  TermRef reduced(const TermRef &a);
  TermRef tileProduct(const TermRef &a);
  TermRef turned(const TermRef &a, const TermRef &b);
  TermRef accumulated(const TermRef &a);

  std::mt19937 random_;
  int products_ = 0;
};

} // namespace tilewright::test
