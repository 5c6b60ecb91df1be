#include "runtime/device.h"

#include <climits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/argument_memory.h"

namespace tilewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

alignas(8) char memory[64];

/// axpy(x: 2-d bf16, y: 1-d f32, n: index, alpha: f32), one program for each 4 rows of x and 2 columns.
Artifact artifact() {
  Artifact artifact;
  artifact.kernel = "axpy";
  artifact.parameters = {{Parameter::Kind::view, "x", ElementType::bf16, 2, false},
                         {Parameter::Kind::view, "y", ElementType::f32, 1, true},
                         {Parameter::Kind::index, "n", ElementType::f32, 0, false},
                         {Parameter::Kind::float32, "alpha", ElementType::f32, 0, false}};
  artifact.grid = {{0, 0, 4}, {0, 1, 2}};
  return artifact;
}

std::vector<KernelArgument> arguments() {
  return {TensorRef::matrix(memory, ElementType::bf16, 9, 4), TensorRef::vector(memory, ElementType::f32, 9),
          int64_t(7), 1.0f};
}

Status checkWith(int index, KernelArgument argument) {
  auto all = arguments();
  all[index] = argument;
  return gridFor(artifact(), all).status();
}

/// A user error that names kernel, parameter, what was expected and what was found.
void expectMistake(const Status &status, const std::string &parameter, const std::string &expected,
                   const std::string &found) {
  EXPECT_EQ(status.kind(), StatusKind::user) << status.message();
  EXPECT_THAT(status.message(), HasSubstr("'axpy'"));
  EXPECT_THAT(status.message(), HasSubstr("'" + parameter + "'"));
  EXPECT_THAT(status.message(), HasSubstr("expected " + expected));
  EXPECT_THAT(status.message(), HasSubstr("found " + found));
}

TEST(TensorRef, RowsAreAView) {
  TensorRef matrix = TensorRef::matrix(memory, ElementType::bf16, 5, 4);
  TensorRef part = matrix.rows(2, 3);
  EXPECT_EQ(part.data, memory + 2 * 4 * 2);
  EXPECT_EQ(part.sizes[0], 3);
  EXPECT_EQ(part.sizes[1], 4);
  EXPECT_EQ(part.rowStride, 4);
  EXPECT_EQ(part.elements(), 12);
  EXPECT_EQ(TensorRef::vector(memory, ElementType::i64, 9).rows(3, 1).data, memory + 24);
  EXPECT_EQ(TensorRef().rows(0, 0).data, nullptr);
}

TEST(GridFor, RoundsUpAndFillsWithOnes) {
  EXPECT_THAT(*gridFor(artifact(), arguments()), ElementsAre(3, 2, 1));
  Artifact single = artifact();
  single.grid.clear();
  EXPECT_THAT(*gridFor(single, arguments()), ElementsAre(1, 1, 1));
}

TEST(GridFor, AnIndexMayBeAnAxis) {
  Artifact byIndex = artifact();
  byIndex.grid = {{2, 0, 2}};
  EXPECT_THAT(*gridFor(byIndex, arguments()), ElementsAre(4, 1, 1));
  auto negative = arguments();
  negative[2] = int64_t(-1);
  expectMistake(gridFor(byIndex, negative).status(), "n", "0 or more", "-1");
}

TEST(GridFor, NothingToDoIsAnEmptyGrid) {
  auto empty = arguments();
  empty[0] = TensorRef::matrix(nullptr, ElementType::bf16, 0, 4);
  EXPECT_THAT(*gridFor(artifact(), empty), ElementsAre(0, 2, 1));
}

TEST(GridFor, SizesBeyond32Bits) {
  Artifact byIndex = artifact();
  byIndex.grid = {{2, 0, 1}};
  auto large = arguments();
  large[2] = int64_t(1) << 40;
  EXPECT_EQ((*gridFor(byIndex, large))[0], int64_t(1) << 40);
  large[2] = int64_t(INT64_MAX);
  byIndex.grid = {{2, 0, 2}};
  EXPECT_EQ((*gridFor(byIndex, large))[0], int64_t(1) << 62);
  byIndex.grid = {{2, 0, 1}, {2, 0, 1}};
  EXPECT_EQ(gridFor(byIndex, large).status().kind(), StatusKind::user);
}

TEST(GridFor, NamesWhatDoesNotFit) {
  auto matrix = [](ElementType element, int64_t rows, int64_t columns) {
    return TensorRef::matrix(memory, element, rows, columns);
  };
  expectMistake(checkWith(0, TensorRef::vector(memory, ElementType::bf16, 9)), "x", "rank 2", "rank 1");
  expectMistake(checkWith(0, matrix(ElementType::f16, 9, 4)), "x", "bf16", "f16");
  expectMistake(checkWith(0, matrix(ElementType::bf16, -9, 4)), "x", "sizes of 0 or more",
                "bf16 tensor of -9x4");
  expectMistake(checkWith(0, int64_t(3)), "x", "a tensor", "an integer");
  expectMistake(checkWith(1, 2.0f), "y", "a tensor", "a float");
  expectMistake(checkWith(2, matrix(ElementType::bf16, 9, 4)), "n", "an integer", "a tensor");
  expectMistake(checkWith(3, int64_t(1)), "alpha", "a float", "an integer");
  expectMistake(checkWith(1, TensorRef::vector(nullptr, ElementType::f32, 9)), "y",
                "memory for a f32 tensor of 9", "a null pointer");
}

TEST(GridFor, RowsMayNotOverlap) {
  TensorRef x = TensorRef::matrix(memory, ElementType::bf16, 9, 4);
  x.rowStride = 3;
  expectMistake(checkWith(0, x), "x", "rows at least 4 elements apart", "a row stride of 3");
  x.rowStride = 4096;
  EXPECT_TRUE(checkWith(0, x).ok());
  x.sizes[0] = 1; // a single row has no stride
  x.rowStride = 0;
  EXPECT_TRUE(checkWith(0, x).ok());
}

TEST(GridFor, SizesWhoseBytesOverflow) {
  TensorRef x = TensorRef::matrix(memory, ElementType::bf16, int64_t(1) << 40, int64_t(1) << 30);
  expectMistake(checkWith(0, x), "x", "less than 2^63 bytes", "bf16 tensor of");
}

TEST(GridFor, ColumnsAreCountedIn32Bits) {
  auto wide = [](int64_t columns) { return TensorRef::matrix(memory, ElementType::bf16, 1, columns); };
  EXPECT_TRUE(checkWith(0, wide((int64_t(1) << 31) - 1)).ok());
  expectMistake(checkWith(0, wide(int64_t(1) << 31)), "x", "fewer than 2^31 columns",
                "bf16 tensor of 1x2147483648");
}

TEST(GridFor, MemoryIsAligned) {
  expectMistake(checkWith(0, TensorRef::matrix(memory + 1, ElementType::bf16, 9, 4)), "x",
                "memory aligned to 2 bytes", "a pointer that is not");
  expectMistake(checkWith(1, TensorRef::vector(memory + 2, ElementType::f32, 9)), "y",
                "memory aligned to 4 bytes", "a pointer that is not");
  EXPECT_TRUE(checkWith(0, TensorRef::matrix(memory + 2, ElementType::bf16, 9, 4)).ok());
}

TEST(GridFor, CountsArguments) {
  Status status = gridFor(artifact(), {int64_t(1)}).status();
  EXPECT_EQ(status.kind(), StatusKind::user);
  EXPECT_THAT(status.message(), HasSubstr("takes 4 arguments, found 1"));
}

TEST(GridFor, AGridThatFitsNoParameterIsOurMistake) {
  for (GridAxis axis :
       {GridAxis{4, 0, 1}, GridAxis{-1, 0, 1}, GridAxis{0, 2, 1}, GridAxis{0, 0, 0}, GridAxis{3, 0, 1}}) {
    Artifact bad = artifact();
    bad.grid = {axis};
    EXPECT_EQ(gridFor(bad, arguments()).status().kind(), StatusKind::internal);
  }
}

TensorRef block(float *data, int64_t rows, int64_t columns, int64_t stride) {
  TensorRef tensor = TensorRef::matrix(data, ElementType::f32, rows, columns);
  tensor.rowStride = stride;
  return tensor;
}

TEST(Overlap, OfMatrices) {
  float m[200] = {};
  const TensorRef left = block(m, 10, 6, 20);
  EXPECT_TRUE(overlap(left, left));
  EXPECT_TRUE(overlap(left, block(m + 185, 1, 1, 1)));   // in its last row
  EXPECT_FALSE(overlap(left, block(m + 186, 1, 14, 1))); // behind it
  EXPECT_FALSE(overlap(left, block(m + 6, 10, 14, 20))); // columns side by side
  EXPECT_FALSE(overlap(block(m + 6, 9, 14, 20), left));
  EXPECT_TRUE(overlap(left, block(m + 5, 10, 14, 20)));
  EXPECT_TRUE(overlap(left, block(m + 6, 9, 15, 20))); // whose rows end in the next ones
  EXPECT_TRUE(overlap(block(m + 6, 9, 15, 20), left));
  EXPECT_TRUE(overlap(left, block(m + 6, 5, 2, 30))); // other strides: not looked at closely
  EXPECT_FALSE(overlap(left, TensorRef::vector(m + 6, ElementType::f32, 14)));
  EXPECT_TRUE(overlap(left, TensorRef::vector(m + 6, ElementType::f32, 15)));
  EXPECT_FALSE(overlap(left, TensorRef::vector(m, ElementType::f32, 0)));
}

} // namespace
} // namespace tilewright
