#include "tests/fuzz/random_terms.h"

#include <algorithm>

namespace tilewright::test {
namespace {

constexpr ElementType f32 = ElementType::f32, i32 = ElementType::i32;
constexpr double kBound = 1000;     ///< of a term's numbers
constexpr double kExact = 16777216; ///< whole numbers up to here are exact in fp32
constexpr double kExactInBf16 = 256;

template <class Make, class At> TermRef term(int64_t rows, int64_t columns, double bound, Make make, At at) {
  return std::make_shared<Term>(Term{rows, columns, bound, make, at});
}

/// `extent` positions that begin `by` behind those of the program's block; of whole rows all.
Range moved(const Range &range, int64_t by, int64_t extent) {
  Range result = range;
  if (range.extent == kWhole && extent != 1) return result;
  result.extent = extent;
  if (by != 0) result.begin = range.begin + by;
  return result;
}

double larger(double x, double y) { return std::max(x, y); }
double smaller(double x, double y) { return std::min(x, y); }
Tile larger(const Tile &x, const Tile &y) { return max(x, y); }
Tile smaller(const Tile &x, const Tile &y) { return min(x, y); }

/// The same, kept small enough for further operations.
TermRef bounded(const TermRef &a) {
  if (a->bound <= kBound) return a;
  return term(
      a->rows, a->columns, kBound,
      [=](Building &k) {
        const Tile x = a->tile(k), zero = x * 0.0;
        return max(min(x, zero + kBound), zero - kBound);
      },
      [=](const Inputs &in, Place p, int64_t r, int64_t c) {
        return std::clamp(a->value(in, p, r, c), -kBound, kBound);
      });
}

/// The same as a tile: `count` numbers along the contracted axis, from `first` on.
Tile loadedStrip(Building &b, const View &view, bool turned, const Range &range, int64_t first,
                 int64_t count) {
  const Index begin = b.k.constant(first);
  return turned ? transpose(view.at(b.k.range(Axis::rows, begin, count), range.along(Axis::columns)))
                : view.at(range.along(Axis::rows), b.k.range(Axis::columns, begin, count));
}

/// Rows of a product's operand, which may lie in memory as columns.
Strip strip(const View &view, bool turned, const Range &range) {
  return turned ? view.columns(range.along(Axis::columns)).transpose() : view.rows(range.along(Axis::rows));
}

} // namespace

RandomTerms::RandomTerms(Shape shape, unsigned seed) : shape(shape), random_(seed) {
  allRows = 1 + pick(40), allColumns = 1 + pick(90), depth = oneOf<int64_t>({1, 7, 16, 40, 64, 100, 130});
  height = oneOf<int64_t>({1, 2, 3, 4, 8, 16}), width = oneOf<int64_t>({1, 4, 5, 16, 37, 64, 100, 128});
  if (shape == Shape::products)
    height = oneOf<int64_t>({16, 32, 64}), width = oneOf<int64_t>({16, 32, 64, 128});
  if (shape == Shape::rows) {
    height = oneOf<int64_t>({1, 1, 2, 4});
    width = allColumns = 2 + oneOf<int64_t>({pick(20), pick(300), pick(3000)});
  }
  if (shape == Shape::products) terms.push_back(product());
  for (int i = 0; i < 3; ++i)
    terms.push_back(leaf());
  const int64_t count = 3 + pick(8);
  for (int64_t i = 0; i < count; ++i)
    terms.push_back(bounded(operation()));
}

TermRef RandomTerms::leaf() {
  const int64_t r0 = shift(), c0 = shift(), h = height, w = width;
  switch (pick(6)) {
  case 0:
    return term(
        1, w, 4, [=](Building &b) { return b.b[moved(b.columns, c0, w)]; },
        [=](const Inputs &in, Place p, int64_t, int64_t c) { return in.b.at(0, p.column + c0 + c); });
  case 1:
    return term(
        h, 1, 4, [=](Building &b) { return b.b[moved(b.rows, r0, h)]; },
        [=](const Inputs &in, Place p, int64_t r, int64_t) { return in.b.at(0, p.row + r0 + r); });
  case 2:
    return bounded(term(
        1, w, 4000, [=](Building &b) { return cast(moved(b.columns, c0, w).positions(), f32); },
        [=](const Inputs &, Place p, int64_t, int64_t c) { return double(p.column + c0 + c); }));
  case 3: // rows by their numbers, which may be of none
    return term(
        h, w, 4,
        [=](Building &b) { return b.x.gather(b.label[moved(b.rows, r0, h)], moved(b.columns, c0, w)); },
        [=](const Inputs &in, Place p, int64_t r, int64_t c) {
          const int64_t row = p.row + r0 + r, number = static_cast<int64_t>(in.label.at(0, row));
          return in.x.at(number, p.column + c0 + c);
        });
  default:
    return loaded();
  }
}

TermRef RandomTerms::loaded() {
  const int64_t r0 = shift(), c0 = shift(), h = height, w = width, size = 1 + pick(allRows);
  const bool narrow = pick(4) == 0;
  return term(
      h, w, 4,
      [=](Building &b) {
        const View view = narrow ? b.x.narrowed(0, b.k.constant(size)) : b.x;
        return view.at(moved(b.rows, r0, h), moved(b.columns, c0, w));
      },
      [=](const Inputs &in, Place p, int64_t r, int64_t c) {
        const int64_t row = p.row + r0 + r;
        return narrow && row >= size ? 0 : in.x.at(row, p.column + c0 + c);
      });
}

TermRef RandomTerms::product() {
  const int64_t r0 = shift(), c0 = shift(), h = height, w = width, n = depth;
  ++products_;
  return term(
      h, w, 9.0 * n,
      [=](Building &b) {
        return dot(strip(b.left, b.leftTurned, moved(b.rows, r0, h)),
                   strip(b.right, b.rightTurned, moved(b.columns, c0, w)).transpose());
      },
      [=](const Inputs &in, Place p, int64_t r, int64_t c) {
        double sum = 0;
        for (int64_t i = 0; i < n; ++i)
          sum += in.leftAt(p.row + r0 + r, i) * in.rightAt(p.column + c0 + c, i);
        return sum;
      });
}

TermRef RandomTerms::operation() {
  const TermRef a = any(), b = any(), c = any();
  switch (pick(16)) {
  case 14:
  case 15:
    return tileProduct(a);
  case 12:
    return ofBits<int32_t>(a, b);
  case 13:
    return ofBits<int64_t>(a, b);
  case 0:
    return chosen(a, b, c);
  case 1:
    return asInteger(a);
  case 2:
    return gathered(a);
  case 3:
    return scattered(a);
  case 4:
  case 5:
    return reduced(a);
  case 6:
    return turned(a, b);
  case 7:
    return accumulated(a);
  case 8:
    if (shape == Shape::products && products_ < 2) return product();
    [[fallthrough]];
  default:
    return elementwise(a, b);
  }
}

TermRef RandomTerms::elementwise(const TermRef &a, const TermRef &b) {
  const auto binary = [&](double bound, auto f) {
    return term(
        std::max(a->rows, b->rows), std::max(a->columns, b->columns), bound,
        [=](Building &k) { return f(a->tile(k), b->tile(k)); },
        [=](const Inputs &in, Place p, int64_t r, int64_t c) {
          return f(a->value(in, p, r, c), b->value(in, p, r, c));
        });
  };
  switch (pick(5)) {
  case 0:
    return binary(a->bound + b->bound, [](auto x, auto y) { return x + y; });
  case 1:
    return binary(a->bound + b->bound, [](auto x, auto y) { return x - y; });
  case 2:
    return binary(a->bound * b->bound, [](auto x, auto y) { return x * y; });
  case 3:
    return binary(std::max(a->bound, b->bound), [](auto x, auto y) { return larger(x, y); });
  default:
    return binary(std::max(a->bound, b->bound), [](auto x, auto y) { return smaller(x, y); });
  }
}

TermRef RandomTerms::chosen(const TermRef &a, const TermRef &b, const TermRef &c) {
  const double limit = static_cast<double>(pick(5));
  return term(
      std::max({a->rows, b->rows, c->rows}), std::max({a->columns, b->columns, c->columns}),
      std::max(b->bound, c->bound),
      [=](Building &k) {
        const Tile x = a->tile(k), y = b->tile(k);
        return select((x < y) | (y == limit), y, c->tile(k));
      },
      [=](const Inputs &in, Place p, int64_t r, int64_t i) {
        const double x = a->value(in, p, r, i), y = b->value(in, p, r, i);
        return x < y || y == limit ? y : c->value(in, p, r, i);
      });
}

TermRef RandomTerms::asInteger(const TermRef &a) {
  return term(
      a->rows, a->columns, 2 * a->bound + 3,
      [=](Building &k) {
        const Tile x = cast(a->tile(k), i32);
        return cast(x + x + 3, f32);
      },
      [=](const Inputs &in, Place p, int64_t r, int64_t c) { return 2 * a->value(in, p, r, c) + 3; });
}

/// An operation on the bits of numbers; of what it gives all bits count, folded into eight.
template <class T> TermRef RandomTerms::ofBits(const TermRef &a, const TermRef &other) {
  using Unsigned = std::make_unsigned_t<T>;
  constexpr int64_t width = sizeof(T) * 8;
  constexpr ElementType type = width == 32 ? i32 : ElementType::i64;
  const int64_t kind = pick(width == 32 ? 10 : 9), constant = pick(width);
  const TermRef b = kind == 2 || (kind >= 6 && kind <= 8) ? a : other; // those with a constant have one shape
  const auto tiles = [=](const Tile &x, const Tile &y) {
    switch (kind) {
    case 0:
      return x & y;
    case 1:
      return x | y;
    case 2:
      return x ^ (constant - 9);
    case 3:
      return x << y;
    case 4:
      return x >> y;
    case 5:
      return shiftRightLogical(x, y);
    case 6:
      return x << constant;
    case 7:
      return x >> constant;
    case 8:
      return shiftRightLogical(x, constant);
    default:
      return mulHigh(x, y);
    }
  };
  const auto numbers = [=](Unsigned x, Unsigned y) -> Unsigned {
    const Unsigned few = y % width;
    switch (kind) {
    case 0:
      return x & y;
    case 1:
      return x | y;
    case 2:
      return x ^ static_cast<Unsigned>(constant - 9);
    case 3:
      return x << few;
    case 4:
      return static_cast<T>(x) >> few;
    case 5:
      return x >> few;
    case 6:
      return x << constant;
    case 7:
      return static_cast<T>(x) >> constant;
    case 8:
      return x >> constant;
    default:
      return static_cast<Unsigned>(static_cast<uint64_t>(x) * y >> 32);
    }
  };
  return term(
      std::max(a->rows, b->rows), std::max(a->columns, b->columns), 255,
      [=](Building &k) {
        Tile bits = tiles(cast(a->tile(k), type), cast(b->tile(k), type));
        for (int64_t half = width / 2; half >= 8; half /= 2)
          bits = bits ^ shiftRightLogical(bits, half);
        return cast(bits & 255, f32);
      },
      [=](const Inputs &in, Place p, int64_t r, int64_t c) {
        const auto asInteger = [&](const TermRef &x) {
          return static_cast<Unsigned>(static_cast<T>(x->value(in, p, r, c)));
        };
        Unsigned bits = numbers(asInteger(a), asInteger(b));
        for (int64_t half = width / 2; half >= 8; half /= 2)
          bits ^= bits >> half;
        return static_cast<double>(bits & 255);
      });
}

/// Of each row the element that a label names, or 0.
TermRef RandomTerms::gathered(const TermRef &a) {
  const int64_t r0 = shift();
  return term(
      a->rows, 1, a->bound,
      [=](Building &k) { return gather(a->tile(k), k.label[moved(k.rows, r0, a->rows)]); },
      [=](const Inputs &in, Place p, int64_t r, int64_t) {
        const auto label = static_cast<int64_t>(in.label.at(0, p.row + r0 + r));
        return label >= 0 && label < a->columns ? a->value(in, p, r, label) : 0;
      });
}

/// A row of zeros but for what stands where a label says.
TermRef RandomTerms::scattered(const TermRef &a) {
  const int64_t r0 = shift();
  return term(
      a->rows, a->columns, a->bound * (a->columns + 1),
      [=](Building &k) {
        const Tile x = a->tile(k);
        return x + scatter(sum(x, Axis::columns), k.label[moved(k.rows, r0, a->rows)], x);
      },
      [=](const Inputs &in, Place p, int64_t r, int64_t c) {
        double total = a->value(in, p, r, c);
        if (static_cast<int64_t>(in.label.at(0, p.row + r0 + r)) == c)
          for (int64_t i = 0; i < a->columns; ++i)
            total += a->value(in, p, r, i);
        return total;
      });
}

TermRef RandomTerms::reduced(const TermRef &a) {
  const bool alongRows = pick(2) == 0;
  const int64_t count = alongRows ? a->rows : a->columns, kind = pick(3);
  return term(
      alongRows ? 1 : a->rows, alongRows ? a->columns : 1, kind == 0 ? a->bound * count : a->bound,
      [=](Building &k) {
        const Tile x = a->tile(k);
        const Axis axis = alongRows ? Axis::rows : Axis::columns;
        return kind == 0 ? sum(x, axis) : kind == 1 ? max(x, axis) : min(x, axis);
      },
      [=](const Inputs &in, Place p, int64_t r, int64_t c) {
        double result = 0;
        for (int64_t i = 0; i < count; ++i) {
          const double x = alongRows ? a->value(in, p, i, c) : a->value(in, p, r, i);
          result = i == 0 ? x : kind == 0 ? result + x : kind == 1 ? larger(result, x) : smaller(result, x);
        }
        return result;
      });
}

/// A product of tiles with a right operand from memory, and on the left one from memory or `a`.
TermRef RandomTerms::tileProduct(const TermRef &a) {
  if (shape != Shape::products) return elementwise(a, any());
  const int64_t h = height, w = width, r0 = shift(), c0 = shift();
  const bool ofTile = a->rows == h && a->columns == w && a->bound <= kExactInBf16 && pick(2);
  const int64_t count = ofTile ? w : oneOf<int64_t>({16, 32, 64, 64, 128}), first = ofTile ? 0 : pick(20);
  return bounded(term(
      h, w, (ofTile ? a->bound : 3) * 3 * count,
      [=](Building &b) {
        const Tile right = loadedStrip(b, b.right, b.rightTurned, moved(b.columns, c0, w), first, count);
        const Tile left = ofTile ? rounded(a->tile(b), b.right.element())
                                 : loadedStrip(b, b.left, b.leftTurned, moved(b.rows, r0, h), first, count);
        return dot(left, transpose(right));
      },
      [=](const Inputs &in, Place p, int64_t r, int64_t c) {
        double sum = 0;
        for (int64_t i = 0; i < count; ++i)
          sum += (ofTile ? a->value(in, p, r, i) : in.leftAt(p.row + r0 + r, first + i)) *
                 in.rightAt(p.column + c0 + c, first + i);
        return sum;
      }));
}

/// a·bᵀ of tiles, its rows added up, or the sum of both, transposed there and back.
TermRef RandomTerms::turned(const TermRef &a, const TermRef &b) {
  const int64_t w = width, h = height;
  const bool isFull = a->rows == h && b->rows == h && a->columns == w && b->columns == w && h > 1 && w > 1;
  if (shape == Shape::rows || !isFull) return elementwise(a, b);
  const bool isNarrow = std::max(a->bound, b->bound) <= kExactInBf16 && pick(2);
  if (a->bound * b->bound * w * h < kExact && pick(2))
    return term(
        h, 1, a->bound * b->bound * w * h,
        [=](Building &k) {
          const auto operand = [&](const TermRef &x) {
            return isNarrow ? rounded(x->tile(k), ElementType::bf16) : x->tile(k);
          };
          return sum(dot(operand(a), transpose(operand(b))), Axis::columns);
        },
        [=](const Inputs &in, Place p, int64_t r, int64_t) {
          double total = 0;
          for (int64_t j = 0; j < h; ++j)
            for (int64_t i = 0; i < w; ++i)
              total += a->value(in, p, r, i) * b->value(in, p, j, i);
          return total;
        });
  return term(
      h, w, a->bound + b->bound,
      [=](Building &k) { return transpose(transpose(a->tile(k)) + transpose(b->tile(k))); },
      [=](const Inputs &in, Place p, int64_t r, int64_t c) {
        return a->value(in, p, r, c) + b->value(in, p, r, c);
      });
}

/// A loop that adds up blocks of the matrix which lie behind each other.
TermRef RandomTerms::accumulated(const TermRef &a) {
  const int64_t w = width, h = height, count = pick(4), step = 1 + pick(9);
  if (shape == Shape::rows || a->rows != h || a->columns != w) return elementwise(a, any());
  return term(
      h, w, a->bound + 4.0 * count,
      [=](Building &k) {
        const auto body = [&](Index i, const std::vector<Tile> &carried) {
          Range columns = k.columns;
          columns.begin = columns.begin + i;
          return std::vector<Tile>{carried[0] + k.x.at(k.rows, columns)};
        };
        return k.k.forRange(k.k.constant(0), k.k.constant(count * step), step, {a->tile(k)}, body)[0];
      },
      [=](const Inputs &in, Place p, int64_t r, int64_t c) {
        double total = a->value(in, p, r, c);
        for (int64_t i = 0; i < count; ++i)
          total += in.x.at(p.row + r, p.column + i * step + c);
        return total;
      });
}

} // namespace tilewright::test
