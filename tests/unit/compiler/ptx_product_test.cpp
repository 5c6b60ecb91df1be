// Products by what a GPU's code computes in an interpreter: portable code, and Hopper's own.

#include <cmath>
#include <cstring>
#include <ostream>
#include <random>

#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "compiler/dsl/builder.h"
#include "compiler/number_formats.h"
#include "tests/support/ptx_interpreter.h"

namespace tilewright {
namespace {

/// rows × columns of random numbers that a type holds, in rows `stride` apart; what lies between them is NaN.
/// Beginning `gap` numbers into its memory.
struct Matrix {
  Matrix(ElementType element, int64_t rows, int64_t columns, int64_t stride, int64_t gap)
      : element(element), rows(rows), columns(columns), stride(stride), gap(gap),
        memory((gap + rows * stride) * elementBytes(element) + 16, '\xff') {
    static std::mt19937 random;
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < rows * columns; ++i)
      put(i / columns, i % columns, normal(random));
  }

  char *at(int64_t row, int64_t column) {
    // From a multiple of 16 bytes on, so that `gap` alone decides what is aligned.
    auto *begin = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(memory.data()) + 15) / 16 * 16);
    return begin + (gap + row * stride + column) * elementBytes(element);
  }
  void put(int64_t row, int64_t column, float value) {
    const uint16_t half = element == ElementType::bf16 ? bf16FromDouble(value) : f16FromDouble(value);
    element == ElementType::f32 ? std::memcpy(at(row, column), &value, 4)
                                : std::memcpy(at(row, column), &half, 2);
  }
  double get(int64_t row, int64_t column) {
    float value;
    uint16_t half;
    std::memcpy(&half, at(row, column), 2);
    if (element != ElementType::f32)
      return element == ElementType::bf16 ? floatFromBf16(half) : floatFromF16(half);
    std::memcpy(&value, at(row, column), 4);
    return value;
  }
  TensorRef ref() {
    TensorRef tensor = TensorRef::matrix(at(0, 0), element, rows, columns);
    tensor.rowStride = stride;
    return tensor;
  }

  ElementType element;
  int64_t rows, columns, stride, gap;
  std::vector<char> memory;
};

/// To nearest; ties to even, as TMA does, or away from zero, as cvt.rna does.
double roundedToTf32(double x, bool tiesToEven) {
  int exponent;
  const double fraction = std::ldexp(std::frexp(x, &exponent), 11); // in [2^10, 2^11)
  return std::ldexp(tiesToEven ? std::nearbyint(fraction) : std::round(fraction), exponent - 11);
}

constexpr auto kInTurn = Schedule::WarpRoles::pingPong, kTogether = Schedule::WarpRoles::cooperative;

struct ProductCase {
  const char *name;
  ElementType element;
  bool tf32, leftIsMinor, rightIsMinor; ///< whether the contracted axis runs along rows of memory
  Schedule::WarpRoles roles = Schedule::WarpRoles::automatic; ///< else of warps with roles, on Hopper
  int clusterCtas = 1;
  bool swapsOperands = false;

  bool isHopper() const { return roles != Schedule::WarpRoles::automatic; }
};

void PrintTo(const ProductCase &c, std::ostream *out) { *out << c.name; }

class PtxProduct : public ::testing::TestWithParam<ProductCase> {
protected:
  StatusOr<Artifact> compileProduct() {
    const auto [name, element, tf32, leftIsMinor, rightIsMinor, roles, clusterCtas, swaps] = GetParam();
    const Kernel kernel =
        defineKernel("product", name, [=, e = element, l = leftIsMinor, r = rightIsMinor](KernelBuilder &k) {
          const View a = k.input("a", e, 2), b = k.input("b", e, 2);
          const View c = k.output("c", ElementType::f32, 2);
          const auto [rows, columns] = k.block(a.dim(l ? 0 : 1), b.dim(r ? 0 : 1), 64, 128);
          k.store(c, rows, columns,
                  dot(l ? a.rows(rows) : a.columns(rows).transpose(),
                      r ? b.rows(columns).transpose() : b.columns(columns)));
        });
    CompileOptions options;
    options.tf32 = tf32;
    if (!GetParam().isHopper()) return compile(kernel, *parseTarget("sm_80"), options);
    options.alignedMatrices = true;
    options.schedule.roles = roles;
    options.schedule.clusterCtas = clusterCtas;
    options.schedule.swapsOperands = swaps;
    return compile(kernel, *parseTarget("sm_90a"), options);
  }

  /// `padding`, `gap`: numbers behind each row and ahead of the first.
  void expectRight(const Artifact &artifact, int64_t n, int64_t m, int64_t depth, int64_t padding,
                   int64_t gap) {
    const auto [name, element, tf32, leftIsMinor, rightIsMinor, roles, clusterCtas, swaps] = GetParam();
    const auto matrix = [&, e = element](bool isMinor, int64_t positions) {
      const int64_t rows = isMinor ? positions : depth, columns = isMinor ? depth : positions;
      return Matrix(e, rows, columns, columns + padding, gap);
    };
    Matrix a = matrix(leftIsMinor, n), b = matrix(rightIsMinor, m), c(ElementType::f32, n, m, m, 0);
    const Status status = test::interpretPtx(artifact, {a.ref(), b.ref(), c.ref()});
    ASSERT_TRUE(status.ok()) << status.message();
    const auto operand = [&, t = tf32](Matrix &x, bool isMinor, int64_t position, int64_t k) {
      const double value = isMinor ? x.get(position, k) : x.get(k, position);
      return t ? roundedToTf32(value, GetParam().isHopper()) : value;
    };
    double worst = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < m; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += operand(a, leftIsMinor, i, k) * operand(b, rightIsMinor, j, k);
        worst = std::max(worst, std::fabs(c.get(i, j) - sum));
      }
    EXPECT_LT(worst, 1e-4) << n << "x" << m << "x" << depth << ", padding " << padding << ", gap " << gap;
  }
};

/// The same, whose CTAs keep pace however small the operands are; beyond 128 MiB they do by themselves.
Artifact inPace(Artifact artifact) {
  const std::string least = "134217728";
  const std::size_t at = artifact.assembly.find(least);
  EXPECT_NE(at, std::string::npos) << "keeps no pace";
  if (at != std::string::npos) artifact.assembly.replace(at, least.size(), "0");
  return artifact;
}

TEST_P(PtxProduct, IsRightForAnyAlignmentAndSize) {
  const StatusOr<Artifact> artifact = compileProduct();
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_EQ(artifact->tensorMaps.empty(), !GetParam().isHopper());
  expectRight(*artifact, 64, 128, 64, 0, 0);                                   // whole tiles, aligned
  expectRight(*artifact, 72, 136, 40, 8, 16);                                  // several CTAs, a ragged end
  if (!GetParam().isHopper()) return expectRight(*artifact, 33, 70, 23, 1, 1); // no row is aligned
  expectRight(*artifact, 400, 520, 136, 0, 8); // more programs than CTAs, several rounds of a ring
  if (GetParam().roles == kTogether) expectRight(inPace(*artifact), 400, 520, 136, 0, 8);
}

INSTANTIATE_TEST_SUITE_P(
    All, PtxProduct,
    ::testing::Values(
        ProductCase{"bf16", ElementType::bf16, false, true, true},
        ProductCase{"bf16_over_rows", ElementType::bf16, false, false, false},
        ProductCase{"f16", ElementType::f16, false, true, false},
        ProductCase{"f32", ElementType::f32, false, true, true},
        ProductCase{"f32_over_rows", ElementType::f32, false, false, false},
        ProductCase{"tf32", ElementType::f32, true, true, true},
        ProductCase{"tf32_left_over_rows", ElementType::f32, true, false, true},
        ProductCase{"tf32_right_over_rows", ElementType::f32, true, true, false},
        ProductCase{"tf32_over_rows", ElementType::f32, true, false, false},
        ProductCase{"hopper_bf16", ElementType::bf16, false, true, true, kInTurn},
        ProductCase{"hopper_bf16_over_rows", ElementType::bf16, false, false, false, kTogether, 2},
        ProductCase{"hopper_bf16_left_over_rows", ElementType::bf16, false, false, true, kInTurn, 2},
        ProductCase{"hopper_f16", ElementType::f16, false, true, false, kTogether},
        ProductCase{"hopper_tf32", ElementType::f32, true, true, true, kTogether, 2},
        ProductCase{"swapped_bf16", ElementType::bf16, false, true, true, kInTurn, 1, true},
        ProductCase{"swapped_bf16_over_rows", ElementType::bf16, false, false, false, kTogether, 2, true},
        ProductCase{"swapped_f16", ElementType::f16, false, true, false, kTogether, 1, true},
        ProductCase{"swapped_tf32", ElementType::f32, true, true, true, kTogether, 2, true}),
    [](const auto &info) { return info.param.name; });

} // namespace
} // namespace tilewright
