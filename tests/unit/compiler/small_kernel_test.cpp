// Small kernels by what each target's code computes: the CPU's by running it, GPUs' in an interpreter.

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "runtime/cpu/cpu_device.h"
#include "tests/support/ptx_interpreter.h"

namespace tilewright {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr ElementType f32 = ElementType::f32, bf16 = ElementType::bf16, i32 = ElementType::i32;

/// What `compile` and a launch say of a kernel on the target of this name.
Status run(const std::string &name, const Kernel &kernel, ArgumentSpan arguments,
           const CompileOptions &options = {}) {
  const Target target = *parseTarget(name);
  TW_ASSIGN_OR_RETURN(const Artifact artifact, compile(kernel, target, options));
  if (target.kind == TargetKind::nvptx) return test::interpretPtx(artifact, arguments);
  CpuDevice device;
  TW_ASSIGN_OR_RETURN(const auto loaded, device.load(artifact));
  return device.launch(*loaded, arguments, nullptr);
}

class SmallKernel : public testing::TestWithParam<const char *> {
protected:
  void expectRuns(const Kernel &kernel, ArgumentSpan arguments, const CompileOptions &options = {}) {
    const Status status = run(GetParam(), kernel, arguments, options);
    ASSERT_TRUE(status.ok()) << status.message();
  }
};

TensorRef vectorOf(std::vector<int32_t> &values) {
  return TensorRef::vector(values.data(), i32, int64_t(values.size()));
}
TensorRef matrixOf(std::vector<float> &values, int64_t rows) {
  return TensorRef::matrix(values.data(), f32, rows, int64_t(values.size()) / rows);
}

TEST_P(SmallKernel, NumberAlongAnAxisThatTheGridLacksIsZero) {
  const Kernel kernel = defineKernel("numbers", "", [](KernelBuilder &k) {
    const View first = k.output("first", i32, 1), second = k.output("second", i32, 1);
    const Range rows = k.blockRows(first.dim(0), 1);
    k.store(first, rows, k.toTile(k.programId(1), i32));
    k.store(second, rows, k.toTile(k.programId(2), i32));
  });
  std::vector<int32_t> first(3, -1), second(3, -1);
  expectRuns(kernel, {vectorOf(first), vectorOf(second)});
  EXPECT_THAT(first, ElementsAre(0, 0, 0));
  EXPECT_THAT(second, ElementsAre(0, 0, 0));
}

// Persistent programs, and those in a raster, compute their numbers.
TEST_P(SmallKernel, NumberAlongAnAxisThatTheGridLacksIsZeroBesideAProduct) {
  const Kernel kernel = defineKernel("numbered_product", "", [](KernelBuilder &k) {
    const View a = k.input("a", bf16, 2), b = k.input("b", bf16, 2), c = k.output("c", f32, 2);
    const auto [rows, columns] = k.block(a.dim(0), b.dim(0), 64, 128);
    const Tile number = cast(k.toTile(k.programId(2), i32), f32);
    k.store(c, rows, columns, dot(a.rows(rows), b.rows(columns).transpose()) + number);
  });
  constexpr uint16_t kOne = 0x3f80; // of bf16
  const int64_t n = 64, m = 128, depth = 64;
  std::vector<uint16_t> a(n * depth, kOne), b(m * depth, kOne);
  std::vector<float> c(n * m, -1);
  CompileOptions options;
  options.alignedMatrices = true;
  options.schedule.rasterRows = 2;
  expectRuns(kernel,
             {TensorRef::matrix(a.data(), bf16, n, depth), TensorRef::matrix(b.data(), bf16, m, depth),
              matrixOf(c, n)},
             options);
  EXPECT_THAT(c, ElementsAreArray(std::vector<float>(n * m, depth)));
}

// The number of a row's maximum with the smallest identifier, which may stand anywhere in the row.
TEST_P(SmallKernel, AmongTiesTheSmallestIdentifierWins) {
  const int64_t columns = 256;
  const Kernel kernel = defineKernel("best_identifier", "", [=](KernelBuilder &k) {
    const View x = k.input("x", f32, 2), ids = k.input("ids", i32, 1), best = k.output("best", i32, 1);
    const Range rows = k.blockRows(x.dim(0), 4), all = k.range(Axis::columns, k.constant(0), columns);
    const Tile z = x.at(rows, all);
    const Tile tied = select(z == max(z, Axis::columns), ids[all], std::numeric_limits<int32_t>::max());
    k.store(best, rows, min(tied, Axis::columns));
  });
  const int64_t rows = 4;
  std::vector<float> x(rows * columns, 1);
  std::vector<int32_t> ids(columns), best(rows, -1);
  for (int64_t i = 0; i < columns; ++i)
    ids[i] = int32_t(1000 + (i * 37 + 11) % columns); // a permutation
  x[1 * columns + 5] = x[1 * columns + 200] = 3;
  x[2 * columns + 77] = std::numeric_limits<float>::quiet_NaN(); // no number equals the maximum
  for (int64_t i = 0; i < columns; ++i)
    x[3 * columns + i] = -std::numeric_limits<float>::infinity();
  expectRuns(kernel, {matrixOf(x, rows), vectorOf(ids), vectorOf(best)});
  EXPECT_THAT(best, ElementsAre(1000, std::min(ids[5], ids[200]), std::numeric_limits<int32_t>::max(), 1000));
}

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
      const Tile cut = select(scores > 8, 8, select(scores < -8, -8, scores)); // exact in bf16
      return {sums[0] + dot(rounded(cut, bf16), v.at(here, columns))};
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
        want += std::min(std::max(productAt(i, l, depth), -8.0), 8.0) * numberAt(l, j);
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
            const Tile cut = select(scores > 8, 8, select(scores < -8, -8, scores)); // exact in bf16
            return {sums[0] + dot(rounded(cut, bf16), v.at(here, columns))};
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
          want += std::min(std::max(score, -8.0), 8.0) * numberAt(l, j);
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

/// From where exp is 0 to where it is infinite, and what is special.
std::vector<float> exponents() {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values{0, -0.0f, 1e-30f, -1e-30f, infinity, -infinity, 3e38f, -3e38f};
  for (int i = 0; i < 1016; ++i)
    values.push_back(-104.7f + 0.19173f * float(i));
  return values;
}

/// The relative error in units of 2^-23; results below the normal numbers count as 0.
double errorOfExp(float found, float x) {
  const double want = std::exp(double(x));
  if (want < std::numeric_limits<float>::min())
    return std::fabs(found) <= std::numeric_limits<float>::min() ? 0 : 1e9;
  if (want > std::numeric_limits<float>::max()) return std::isinf(found) && found > 0 ? 0 : 1e9;
  return std::ldexp(std::fabs(found - want) / want, 23);
}

// By vectors and by single numbers (a column), and of a number that is written as a difference.
TEST_P(SmallKernel, ExponentialsOverTheWholeRange) {
  std::vector<float> x = exponents();
  const int64_t size = int64_t(x.size()), wide = 128;
  const Kernel kernel = defineKernel("exponentials", "", [=](KernelBuilder &k) {
    const View x = k.input("x", f32, 2), column = k.output("column", f32, 2), row = k.output("row", f32, 2),
               difference = k.output("difference", f32, 2);
    const Range rows = k.blockRows(x.dim(0), 8), all = k.range(Axis::columns, k.constant(0), wide),
                first = k.range(Axis::columns, k.constant(0), 1);
    k.store(row, rows, all, exp(x.at(rows, all)));
    k.store(column, rows, first, exp(x.at(rows, first)));
    k.store(difference, rows, all, exp(x.at(rows, all) - 2.0 * x.at(rows, all)));
  });
  const int64_t rows = size / wide;
  std::vector<float> column(size, -1), row(size, -1), difference(size, -1);
  expectRuns(kernel,
             {matrixOf(x, rows), matrixOf(column, rows), matrixOf(row, rows), matrixOf(difference, rows)});
  for (int64_t i = 0; i < size; ++i) {
    EXPECT_LE(errorOfExp(row[i], x[i]), 2) << "exp(" << x[i] << ") = " << row[i];
    if (i % wide == 0) {
      EXPECT_LE(errorOfExp(column[i], x[i]), 2) << "exp(" << x[i] << ") = " << column[i];
    }
    if (std::isinf(x[i]) || std::fabs(x[i]) > 1e38) continue; // the difference is no number, or overflows
    EXPECT_LE(errorOfExp(difference[i], -x[i]), 2 + 0.7 * std::fabs(x[i]))
        << "exp(" << -x[i] << ") = " << difference[i];
  }
}

/// x · x, `times` over: each operation uses what it works on twice.
Tile squared(Tile x, int times) {
  for (int i = 0; i < times; ++i)
    x = x * x;
  return x;
}

// Walks over a kernel's operations visit each once.
TEST_P(SmallKernel, SharedValuesAreSeenOnce) {
  const int64_t rows = 4, columns = 64;
  const Kernel kernel = defineKernel("squares", "", [=](KernelBuilder &k) {
    const View x = k.input("x", f32, 2), label = k.input("label", i32, 1), y = k.output("y", f32, 2),
               z = k.output("z", f32, 1);
    const Range down = k.blockRows(x.dim(0), rows), across = k.range(Axis::columns, k.constant(0), columns);
    const Tile first = x.at(down, across), many = squared(first + sum(first, Axis::rows) * 0.0, 60);
    k.store(y, down, across, many);
    k.store(y, down, across, squared(y.at(down, across), 60));
    k.store(z, down, sum(many, Axis::columns) + gather(squared(many, 60), label[down]));
  });
  std::vector<float> x(rows * columns, 1), y(rows * columns, -1), z(rows, -1);
  std::vector<int32_t> label(rows, 3);
  expectRuns(kernel,
             {matrixOf(x, rows), vectorOf(label), matrixOf(y, rows), TensorRef::vector(z.data(), f32, rows)});
  EXPECT_THAT(y, testing::Each(1.0f));
  EXPECT_THAT(z, testing::Each(float(columns + 1)));
}

INSTANTIATE_TEST_SUITE_P(All, SmallKernel, testing::Values("cpu", "sm_80", "sm_90a"),
                         [](const auto &info) { return std::string(info.param); });

// A thread cannot hold it; its code would be as long as the tile.
TEST(LargeTile, IsACompileErrorOnAGpu) {
  const Kernel kernel = defineKernel("large", "", [](KernelBuilder &k) {
    const View x = k.output("x", f32, 2);
    const auto [rows, columns] = k.block(x.dim(0), x.dim(1), 1024, 1024);
    k.store(x, rows, columns, x.at(rows, columns) * 2.0);
  });
  const Status status = compile(kernel, *parseTarget("sm_80"), {}).status();
  EXPECT_EQ(status.kind(), StatusKind::compile);
  EXPECT_THAT(status.message(),
              testing::HasSubstr("makes a tile of 1024x1024, which is 4096 numbers for each of "
                                 "256 threads; expected at most 512: use smaller blocks"));
}

} // namespace
} // namespace tilewright
