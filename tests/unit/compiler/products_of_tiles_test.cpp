// Small kernels of products, one behind another and of tiles that begin ahead of their views.

#include <algorithm>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/compiler/small_kernel.h"

namespace tilewright {
namespace {

using namespace test;

/// Small whole numbers, which bf16 and sums of their products hold exactly.
float numberAt(int64_t i, int64_t j) { return float((i * 7 + j * 5) % 9 - 4); }

uint16_t bf16Of(float value) { // of a number that has few bits
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return uint16_t(bits >> 16);
}

/// rows × columns of bf16 numbers.
struct Halves {
  Halves(int64_t rows, int64_t columns) : rows(rows), columns(columns) {
    for (int64_t i = 0; i < rows * columns; ++i)
      memory.push_back(bf16Of(numberAt(i / columns, i % columns)));
  }
  TensorRef ref() { return TensorRef::matrix(memory.data(), bf16, rows, columns); }

  int64_t rows, columns;
  std::vector<uint16_t> memory;
};

/// Σ_k a(i, k) b(j, k).
double productAt(int64_t i, int64_t j, int64_t depth) {
  double sum = 0;
  for (int64_t k = 0; k < depth; ++k)
    sum += numberAt(i, k) * numberAt(j, k);
  return sum;
}

// Both products would have their own rows' threads; they share the rows.
TEST_P(SmallKernel, TwoProductsOfTheSameRows) {
  const int64_t n = 64, m = 64, wide = 128, depth = 64;
  const Kernel kernel = defineKernel("two_products", "", [=](KernelBuilder &k) {
    const View a = k.input("a", bf16, 2), b = k.input("b", bf16, 2), c = k.input("c", bf16, 2);
    const View x = k.output("x", f32, 2), y = k.output("y", f32, 2);
    const Range rows = k.blockRows(a.dim(0), 64);
    const Range narrow = k.range(Axis::columns, k.constant(0), m);
    const Range columns = k.range(Axis::columns, k.constant(0), wide);
    const Tile first = dot(a.rows(rows), b.rows(narrow.along(Axis::rows)).transpose());
    const Tile second = dot(a.rows(rows), c.rows(columns.along(Axis::rows)).transpose());
    k.store(x, rows, narrow, first + sum(second, Axis::columns));
    k.store(y, rows, columns, second);
  });
  Halves a(n, depth), b(m, depth), c(wide, depth);
  std::vector<float> x(n * m, -1), y(n * wide, -1);
  expectRuns(kernel, {a.ref(), b.ref(), c.ref(), matrixOf(x, n), matrixOf(y, n)});
  for (int64_t i = 0; i < n; ++i) {
    double total = 0;
    for (int64_t j = 0; j < wide; ++j) {
      const double want = productAt(i, j, depth);
      ASSERT_EQ(y[i * wide + j], want) << i << ", " << j;
      total += want;
    }
    for (int64_t j = 0; j < m; ++j)
      ASSERT_EQ(x[i * m + j], productAt(i, j, depth) + total) << i << ", " << j;
  }
}

// The scores' layout is that of tensor cores, the second product's that of multiply-adds.
TEST_P(SmallKernel, AProductOfScoresAndValues) {
  const int64_t n = 32, m = 32, depth = 64, width = 64;
  const Kernel kernel = defineKernel("attention_tile", "", [=](KernelBuilder &k) {
    const View q = k.input("q", bf16, 2), keys = k.input("k", bf16, 2), v = k.input("v", bf16, 2);
    const View o = k.output("o", f32, 2);
    const Range rows = k.blockRows(q.dim(0), n);
    const Range positions = k.range(Axis::rows, k.constant(0), m);
    const Range columns = k.range(Axis::columns, k.constant(0), width);
    const Tile scores = dot(q.rows(rows), keys.rows(positions).transpose());
    const Tile values = v.at(positions, columns);
    k.store(o, rows, columns, dot(scores, values) - max(scores, Axis::columns));
  });
  Halves q(n, depth), keys(m, depth), v(m, width);
  std::vector<float> o(n * width, -1);
  expectRuns(kernel, {q.ref(), keys.ref(), v.ref(), matrixOf(o, n)});
  for (int64_t i = 0; i < n; ++i) {
    double largest = productAt(i, 0, depth);
    for (int64_t l = 1; l < m; ++l)
      largest = std::max(largest, productAt(i, l, depth));
    for (int64_t j = 0; j < width; ++j) {
      double want = -largest;
      for (int64_t l = 0; l < m; ++l)
        want += productAt(i, l, depth) * numberAt(l, j);
      ASSERT_EQ(o[i * width + j], want) << i << ", " << j;
    }
  }
}

/// Where tiles of bf16 numbers come from: rows of memory from one on (which may lie ahead of it), or are
/// computed.
struct TileSource {
  int64_t ahead;
  bool isComputed;
};

/// c = a·b of one program's tiles of bf16 numbers, a n×depth and b depth×m.
Kernel productOfTiles(int64_t n, int64_t m, int64_t depth, TileSource source) {
  return defineKernel("product_of_tiles", "", [=](KernelBuilder &k) {
    const View a = k.input("a", bf16, 2), b = k.input("b", bf16, 2), c = k.output("c", f32, 2);
    const auto range = [&](Axis axis, int64_t begin, int64_t extent) {
      return k.range(axis, k.constant(begin), extent);
    };
    const Range rows = k.blockRows(a.dim(0), n), columns = range(Axis::columns, 0, m);
    Tile left = a.at(rows, range(Axis::columns, 0, depth));
    Tile right = b.at(range(Axis::rows, -source.ahead, depth), columns);
    if (source.isComputed) left = rounded(left + 1.0, bf16), right = rounded(right * 2.0, bf16);
    k.store(c, rows, columns, dot(left, right));
  });
}

// Tensor cores multiply them, from memory or from registers: several fragments, warps and lines, and sizes
// that fill none.
TEST_P(SmallKernel, ProductsOfTiles) {
  struct Case {
    int64_t n, m, depth;
    TileSource source;
  };
  for (const Case &one :
       {Case{64, 64, 64, {0, false}}, Case{128, 32, 96, {5, false}}, Case{1, 8, 32, {0, false}},
        Case{16, 128, 128, {0, true}}, Case{20, 24, 32, {3, true}}, Case{8, 8, 48, {0, false}}}) {
    const auto [n, m, depth, source] = one;
    const Kernel kernel = productOfTiles(n, m, depth, source);
    Halves a(n, depth), b(depth, m);
    std::vector<float> c(n * m, -1);
    expectRuns(kernel, {a.ref(), b.ref(), matrixOf(c, n)});
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < m; ++j) {
        double want = 0;
        for (int64_t k = source.ahead; k < depth; ++k) {
          const double x = numberAt(i, k) + (source.isComputed ? 1 : 0), y = numberAt(k - source.ahead, j);
          want += x * y * (source.isComputed ? 2 : 1);
        }
        ASSERT_EQ(c[i * m + j], want) << n << "x" << m << "x" << depth << " at " << i << ", " << j;
      }
  }
}

/// Scores that bf16 holds exactly.
double clipped(double score) { return std::min(std::max(score, -8.0), 8.0); }
Tile clipped(const Tile &scores) {
  return rounded(select(scores > 8, 8, select(scores < -8, -8, scores)), bf16);
}

// What one product leaves in registers is the next one's left operand as it is, in a loop, too.
TEST_P(SmallKernel, AChainOfProducts) {
  const int64_t n = 64, keys = 96, step = 32, depth = 64, width = 64;
  const Kernel kernel = defineKernel("chain", "", [=](KernelBuilder &k) {
    const View q = k.input("q", bf16, 2), y = k.input("k", bf16, 2), v = k.input("v", bf16, 2);
    const View o = k.output("o", f32, 2);
    const Range rows = k.blockRows(q.dim(0), n), columns = k.range(Axis::columns, k.constant(0), width);
    const Tile none = cast(rows.positions(), f32) * 0.0 + cast(columns.positions(), f32) * 0.0;
    const auto add = [&](Index at, const std::vector<Tile> &sums) -> std::vector<Tile> {
      const Range here = k.range(Axis::rows, at, step);
      const Tile scores = dot(q.rows(rows), y.rows(here).transpose());
      return {sums[0] + dot(clipped(scores), v.at(here, columns))};
    };
    k.store(o, rows, columns, k.forRange(k.constant(0), y.dim(0), step, {none}, add)[0]);
  });
  Halves q(n, depth), y(keys, depth), v(keys, width);
  std::vector<float> o(n * width, -1);
  expectRuns(kernel, {q.ref(), y.ref(), v.ref(), matrixOf(o, n)});
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < width; ++j) {
      double want = 0;
      for (int64_t l = 0; l < keys; ++l)
        want += clipped(productAt(i, l, depth)) * numberAt(l, j);
      ASSERT_EQ(o[i * width + j], want) << i << ", " << j;
    }
}

// The same with all operands as tiles in memory: the left one is there for the whole loop, both right ones,
// of which one is transposed, for an iteration. They begin where no 16 bytes do, and ahead of their matrices.
TEST_P(SmallKernel, AChainOfTilesInMemory) {
  const int64_t n = 64, keys = 90, step = 32, width = 64;
  for (const auto &[depth, ahead] : {std::pair<int64_t, int64_t>{32, 0}, {64, 3}, {128, 8}}) {
    const Kernel kernel = defineKernel(
        "chain", std::to_string(depth) + "," + std::to_string(ahead),
        [=, depth = depth, ahead = ahead](KernelBuilder &k) {
          const View q = k.input("q", bf16, 2), y = k.input("k", bf16, 2), v = k.input("v", bf16, 2);
          const View o = k.output("o", f32, 2);
          const Range rows = k.blockRows(q.dim(0), n), columns = k.range(Axis::columns, k.constant(0), width);
          const Range along = k.range(Axis::columns, k.constant(-ahead), depth);
          const Tile query = q.at(rows, along);
          const Tile none = cast(rows.positions(), f32) * 0.0 + cast(columns.positions(), f32) * 0.0;
          const auto add = [&](Index at, const std::vector<Tile> &sums) -> std::vector<Tile> {
            const Range here = k.range(Axis::rows, at - ahead, step);
            const Tile scores = dot(query, transpose(y.at(here, along)));
            return {sums[0] + dot(clipped(scores), v.at(here, columns))};
          };
          k.store(o, rows, columns, k.forRange(k.constant(0), y.dim(0) + ahead, step, {none}, add)[0]);
        });
    Halves q(n, depth), y(keys, depth), v(keys, width);
    std::vector<float> o(n * width, -1);
    expectRuns(kernel, {q.ref(), y.ref(), v.ref(), matrixOf(o, n)});
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < width; ++j) {
        double want = 0;
        for (int64_t l = 0; l < keys; ++l) {
          double score = 0;
          for (int64_t k = 0; k < depth - ahead; ++k)
            score += numberAt(i, k) * numberAt(l, k);
          want += clipped(score) * numberAt(l, j);
        }
        ASSERT_EQ(o[i * width + j], want) << depth << ", " << ahead << " at " << i << ", " << j;
      }
  }
}

/// Numbers of memory that begins `kAhead` numbers ahead of a tensor.
constexpr int64_t kAhead = 64;
struct Guarded {
  Guarded(int64_t rows, int64_t columns)
      : rows(rows), columns(columns), memory(rows * columns + 2 * kAhead, 77) {
    for (int64_t i = 0; i < rows * columns; ++i)
      memory[kAhead + i] = numberAt(i / columns, i % columns);
  }
  float *data() { return memory.data() + kAhead; }
  TensorRef ref() { return TensorRef::matrix(data(), f32, rows, columns); }
  TensorRef vector() { return TensorRef::vector(data(), f32, columns); }
  /// The element, 0 outside.
  double at(int64_t i, int64_t j) {
    return i < 0 || j < 0 || i >= rows || j >= columns ? 0 : data()[i * columns + j];
  }
  void expectIntact() {
    for (int64_t i = 0; i < kAhead; ++i)
      ASSERT_TRUE(memory[i] == 77 && memory[memory.size() - 1 - i] == 77) << i;
  }

  int64_t rows, columns;
  std::vector<float> memory;
};

// A block may begin ahead of its view: what lies there counts as 0, and is not stored to.
TEST_P(SmallKernel, BlocksAheadOfTheirViews) {
  const int64_t rows = 16, columns = 32;
  const Kernel kernel = defineKernel("ahead", "", [=](KernelBuilder &k) {
    const View v = k.input("v", f32, 1), x = k.input("x", f32, 2), ids = k.input("ids", i32, 1);
    const View copy = k.output("copy", f32, 1), block = k.output("block", f32, 2),
               sums = k.output("sums", f32, 2), picked = k.output("picked", f32, 2);
    const Index up = k.index("up"), left = k.index("left");
    const Range down = k.range(Axis::rows, up, rows), across = k.range(Axis::columns, left, columns);
    const Range all = k.range(Axis::rows, k.constant(0), rows),
                one = k.range(Axis::columns, k.constant(0), 1);
    k.store(copy, across, v[across] + 1.0);
    k.store(block, down, across, x.at(down, across) + 1.0);
    k.store(sums, all, one,
            sum(x.at(down, across), Axis::columns) + 100.0 * x.at(down, k.range(Axis::columns, left, 1)));
    k.store(picked, all, k.range(Axis::columns, k.constant(0), columns), x.gather(ids[all], across));
  });
  for (const auto &[up, left] : {std::pair<int64_t, int64_t>{-3, -5}, {0, -32}, {-20, 0}, {2, -1}, {-1, 3}}) {
    Guarded v(1, 20), x(10, 20), copy(1, 20), block(10, 20), sums(rows, 1), picked(rows, columns);
    std::vector<int32_t> ids(rows);
    for (int64_t i = 0; i < rows; ++i)
      ids[i] = int32_t(i - 2);
    expectRuns(kernel, {v.vector(), x.ref(), vectorOf(ids), copy.vector(), block.ref(), sums.ref(),
                        picked.ref(), up, left});
    for (Guarded *output : {&copy, &block, &sums, &picked})
      output->expectIntact();
    for (int64_t j = 0; j < 20; ++j)
      ASSERT_EQ(copy.at(0, j), j < left + columns && j >= left ? v.at(0, j) + 1 : v.at(0, j)) << j;
    for (int64_t i = 0; i < rows; ++i) {
      double sum = 100 * x.at(up + i, left);
      for (int64_t j = 0; j < columns; ++j) {
        sum += x.at(up + i, left + j);
        ASSERT_EQ(picked.at(i, j), x.at(ids[i], left + j)) << i << ", " << j;
      }
      ASSERT_EQ(sums.at(i, 0), sum) << i << " from " << up << ", " << left;
    }
    for (int64_t i = 0; i < 10; ++i)
      for (int64_t j = 0; j < 20; ++j) {
        const bool isStored = i >= up && i < up + rows && j >= left && j < left + columns;
        ASSERT_EQ(block.at(i, j), x.at(i, j) + isStored) << i << ", " << j << " from " << up << ", " << left;
      }
  }
}

// Operands along rows and along columns, of fp32 and of 16 bits.
TEST_P(SmallKernel, ProductsOfStripsAheadOfTheirViews) {
  const int64_t rows = 32, columns = 32;
  const Kernel kernel = defineKernel("strips_ahead", "", [=](KernelBuilder &k) {
    const View x = k.input("x", f32, 2), h = k.input("h", bf16, 2);
    const View byRows = k.output("byRows", f32, 2), byColumns = k.output("byColumns", f32, 2),
               halves = k.output("halves", f32, 2);
    const Index from = k.index("from");
    const Range down = k.range(Axis::rows, from, rows), across = k.range(Axis::columns, from, columns);
    const Range i = k.range(Axis::rows, k.constant(0), rows),
                j = k.range(Axis::columns, k.constant(0), columns);
    k.store(byRows, i, j, dot(x.rows(down), x.rows(down).transpose()));
    k.store(byColumns, i, j, dot(x.columns(across).transpose(), x.columns(across)));
    k.store(halves, i, j, dot(h.rows(down), h.columns(across)));
  });
  for (int64_t from : {-1, -7, -40}) {
    const int64_t size = 24;
    Guarded x(size, size), byRows(rows, columns), byColumns(rows, columns), halves(rows, columns);
    Halves h(size, size);
    expectRuns(kernel, {x.ref(), h.ref(), byRows.ref(), byColumns.ref(), halves.ref(), from});
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        double ofRows = 0, ofColumns = 0, ofBoth = 0;
        for (int64_t k = 0; k < size; ++k) {
          ofRows += x.at(from + i, k) * x.at(from + j, k);
          ofColumns += x.at(k, from + i) * x.at(k, from + j);
          ofBoth += x.at(from + i, k) * x.at(k, from + j);
        }
        ASSERT_EQ(byRows.at(i, j), ofRows) << i << ", " << j << " from " << from;
        ASSERT_EQ(byColumns.at(i, j), ofColumns) << i << ", " << j << " from " << from;
        ASSERT_EQ(halves.at(i, j), ofBoth) << i << ", " << j << " from " << from;
      }
  }
}

// What crosses warps needs more shared memory than a Hopper plan with roles has for it: the warps are alike
// then.
TEST_P(SmallKernel, SumsOfColumnsAndTransposesOfAProduct) {
  const int64_t n = 128, m = 128, depth = 64;
  const Kernel kernel = defineKernel("sums_and_transpose", "", [=](KernelBuilder &k) {
    const View a = k.input("a", bf16, 2), b = k.input("b", bf16, 2);
    const View sums = k.output("sums", f32, 1), turned = k.output("turned", f32, 2);
    const auto [rows, columns] = k.block(a.dim(0), b.dim(0), n, m);
    const Tile product = dot(a.rows(rows), b.rows(columns).transpose());
    k.store(sums, columns, sum(product * product, Axis::rows));
    k.store(turned, columns.along(Axis::rows), rows.along(Axis::columns), transpose(product));
  });
  Halves a(n, depth), b(m, depth);
  std::vector<float> sums(m, -1), turned(m * n, -1);
  CompileOptions options;
  options.alignedMatrices = true;
  expectRuns(kernel, {a.ref(), b.ref(), TensorRef::vector(sums.data(), f32, m), matrixOf(turned, m)},
             options);
  for (int64_t j = 0; j < m; ++j) {
    double total = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double want = productAt(i, j, depth);
      total += want * want;
      ASSERT_EQ(turned[j * n + i], want) << j << ", " << i;
    }
    ASSERT_EQ(sums[j], total) << j;
  }
}

} // namespace
} // namespace tilewright
