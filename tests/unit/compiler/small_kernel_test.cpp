// Small kernels on each target: numbers of programs, exponentials, values that are shared, tiles too large.

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/compiler/small_kernel.h"

namespace tilewright {
namespace {

using namespace test;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

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
