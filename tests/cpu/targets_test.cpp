// One kernel compiled for processors with narrower vectors than this one, and tensors larger than 2³²
// elements.

#include <random>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "compiler/compile.h"
#include "kernels/examples/examples.h"
#include "kernels/jit.h"
#include "runtime/cpu/cpu_device.h"
#include "tests/support/amx_emulator.h"
#include "tests/support/device_tensor.h"
#include "tests/support/processors.h"

namespace tilewright {
namespace {

using test::DeviceTensor;
using test::Processor;

const Processor kProcessors[] = {
    test::kSse2,
    test::kAvx2,
    test::kAvx512,
    {"Avx512Bf16", "znver4", "+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512cd,+avx512bf16,+sse4a"},
    {"Amx", "sapphirerapids", "+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512cd,+amx-tile,+amx-bf16"},
};

struct Sizes {
  int64_t m, k, n;
};

/// y = x·w of blocks of 48 × 64, and the sums of each block's columns: rows that do not exist are zeros. An
/// operand lies in memory as it is written, or transposed.
struct Product {
  ElementType element;
  bool leftTransposed, rightTransposed;
  static constexpr int64_t kRows = 48; ///< of a block

  Kernel kernel() const {
    return defineKernel("product", elementName(element), [*this](KernelBuilder &b) {
      const View x = b.input("x", element, 2), w = b.input("w", element, 2),
                 y = b.output("y", ElementType::f32, 2), sums = b.output("sums", ElementType::f32, 2);
      const auto [rows, columns] = b.block(y.dim(0), y.dim(1), kRows, 64);
      const Strip left = leftTransposed ? x.columns(rows).transpose() : x.rows(rows);
      const Strip right = rightTransposed ? w.rows(columns).transpose() : w.columns(columns);
      const Tile product = dot(left, right);
      b.store(y, rows, columns, product);
      b.store(sums, b.range(Axis::rows, b.programId(0), 1), columns, sum(product, Axis::rows));
    });
  }

  /// Runs what was compiled of `kernel` on random numbers, and compares with float64.
  void expectRight(const StatusOr<Artifact> &artifact, const Sizes &sizes) const {
    ASSERT_TRUE(artifact.ok()) << artifact.status().message();
    const auto [m, k, n] = sizes;
    CpuDevice device(1);
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    const auto draw = [&](int64_t count) {
      std::vector<double> values(count);
      for (double &value : values)
        value = test::rounded(normal(random), element);
      return values;
    };
    const std::vector<double> x = draw(m * k), w = draw(k * n);
    const DeviceTensor left = DeviceTensor::matrix(device, element, leftTransposed ? k : m,
                                                   leftTransposed ? m : k, x, /*gap=*/3),
                       right = DeviceTensor::matrix(device, element, rightTransposed ? n : k,
                                                    rightTransposed ? k : n, w, /*gap=*/1);
    DeviceTensor y = DeviceTensor::matrix(device, ElementType::f32, m, n, /*gap=*/2);
    const int64_t blocks = (m + kRows - 1) / kRows;
    DeviceTensor sums = DeviceTensor::matrix(device, ElementType::f32, blocks, n);
    y.poison();
    sums.poison();
    const auto loaded = device.load(*artifact);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    const Status status = device.launch(**loaded, {left.ref(), right.ref(), y.ref(), sums.ref()}, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();

    std::vector<double> want(m * n), wantSums(blocks * n);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t l = 0; l < k; ++l)
        for (int64_t j = 0; j < n; ++j)
          want[i * n + j] +=
              x[leftTransposed ? l * m + i : i * k + l] * w[rightTransposed ? j * k + l : l * n + j];
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        wantSums[i / kRows * n + j] += want[i * n + j];
    EXPECT_LE(test::relativeError(y.get(), want), 1e-6);
    EXPECT_LE(test::relativeError(sums.get(), wantSums), 1e-6);
  }
};

/// The contracted axis' step is 256; blocks are of 48 × 64, and tiles of 16 × 16 by 32.
constexpr Sizes kSizes[] = {{37, 131, 201}, {1, 1, 1}, {49, 545, 65}, {16, 256, 64}, {33, 31, 17}};

class Targets : public testing::TestWithParam<std::tuple<Processor, ElementType>> {};

TEST_P(Targets, ProductIsTheSame) {
  const auto [processor, element] = GetParam();
  if (!canRun(processor)) GTEST_SKIP() << "this processor lacks some of " << processor.features;
  for (const bool leftTransposed : {false, true})
    for (const bool rightTransposed : {false, true}) {
      const Product product{element, leftTransposed, rightTransposed};
      const auto artifact =
          compile(product.kernel(), {TargetKind::cpu, processor.arch, processor.features}, {});
      for (const Sizes &sizes : kSizes)
        product.expectRight(artifact, sizes);
    }
}

INSTANTIATE_TEST_SUITE_P(All, Targets,
                         testing::Combine(testing::ValuesIn(kProcessors),
                                          testing::Values(ElementType::f32, ElementType::bf16,
                                                          ElementType::f16)),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param).name) +
                                  elementName(std::get<1>(info.param));
                         });

// What a processor with AMX does, on any: its instructions are functions here.
TEST(EmulatedTiles, ProductIsTheSame) {
  const Target target = *parseTarget("sapphirerapids");
  for (const bool leftTransposed : {false, true})
    for (const bool rightTransposed : {false, true}) {
      const Product product{ElementType::bf16, leftTransposed, rightTransposed};
      const auto artifact = test::compileWithEmulatedTiles(product.kernel(), target);
      for (const Sizes &sizes : kSizes) {
        const int64_t before = test::emulatedProducts();
        product.expectRight(artifact, sizes);
        EXPECT_GT(test::emulatedProducts(), before);
      }
    }
}

// By features: pairs where AMD has them, tiles where they are, and fp32 elsewhere.
TEST(Instructions, FollowFeatures) {
  const Product product{ElementType::bf16, false, true};
  const auto has = [&](const char *name, const char *instruction) {
    const auto text = emit(product.kernel(), *parseTarget(name), {}, Stage::assembly);
    EXPECT_TRUE(text.ok()) << text.status().message();
    return text.ok() && text->find(instruction) != std::string::npos;
  };
  EXPECT_TRUE(has("sapphirerapids", "\ttdpbf16ps\t"));
  EXPECT_TRUE(has("znver4", "\tvdpbf16ps\t"));
  EXPECT_FALSE(has("cooperlake", "dpbf16ps"));
  EXPECT_TRUE(has("cooperlake", "%zmm15"));
  EXPECT_FALSE(has("x86-64-v3", "%zmm"));
  EXPECT_TRUE(has("x86-64-v3", "\tvfmadd"));
}

/// Three rows, 2³² elements apart: only the pages that hold them become memory.
TEST(LargeTensors, OffsetsPast32Bits) {
  const int64_t stride = (int64_t(1) << 32) + 5, columns = 100, bytes = 2 * stride * 4 + columns * 4;
  void *memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no address space for " << bytes << " bytes";
  auto *x = static_cast<float *>(memory);
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t column = 0; column < columns; ++column)
      x[row * stride + column] = row == 2 ? 0.5f * column : 0;

  auto runtime = test::openRuntime();
  TensorRef tensor = TensorRef::matrix(memory, ElementType::f32, 3, columns);
  tensor.rowStride = stride;
  const Status status = launch(*runtime, rowSoftmax(ElementType::f32), {tensor, tensor}, nullptr);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int64_t column = 0; column < columns; ++column) {
    EXPECT_NEAR(x[column], 0.01, 1e-7);
    EXPECT_NEAR(x[2 * stride + column], std::exp(0.5 * (column - 99)) * (1 - std::exp(-0.5)), 1e-6);
  }
  munmap(memory, bytes);
}

} // namespace
} // namespace tilewright
