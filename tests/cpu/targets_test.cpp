// One kernel compiled for processors with narrower vectors than this one, and tensors larger than 2³²
// elements.

#include <random>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "compiler/compile.h"
#include "kernels/examples/examples.h"
#include "kernels/jit.h"
#include "runtime/cpu/cpu_device.h"
#include "tests/support/device_tensor.h"

namespace tilewright {
namespace {

using test::DeviceTensor;

struct Processor {
  const char *name, *arch, *features;
};

const Processor kProcessors[] = {
    {"Sse2", "x86-64", ""},
    {"Avx2", "x86-64-v3", "+avx2,+fma,+f16c"},
    {"Avx512", "x86-64-v4", "+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512cd"},
};

bool canRun(const Processor &processor) {
  const std::string mine = "," + hostTarget().features + ",";
  std::stringstream features(processor.features);
  for (std::string feature; std::getline(features, feature, ',');)
    if (mine.find("," + feature + ",") == std::string::npos) return false;
  return true;
}

class Targets : public testing::TestWithParam<std::tuple<Processor, ElementType>> {};

TEST_P(Targets, ProductIsTheSame) {
  const auto [processor, element] = GetParam();
  if (!canRun(processor)) GTEST_SKIP() << "this processor lacks " << processor.features;
  CpuDevice device;
  const int64_t m = 37, k = 131, n = 201;
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  const auto draw = [&](int64_t count) {
    std::vector<double> values(count);
    for (double &value : values)
      value = test::rounded(normal(random), element);
    return values;
  };
  const std::vector<double> x = draw(m * k), w = draw(k * n), bias = draw(n);
  DeviceTensor y = DeviceTensor::matrix(device, ElementType::f32, m, n);
  y.poison();

  const Kernel kernel = defineKernel("product", elementName(element), [element = element](KernelBuilder &b) {
    const View x = b.input("x", element, 2), w = b.input("w", element, 2),
               y = b.output("y", ElementType::f32, 2);
    const auto [rows, columns] = b.block(x.dim(0), w.dim(1), 16, 64);
    b.store(y, rows, columns, dot(x.rows(rows), w.columns(columns)));
  });
  const StatusOr<Artifact> artifact =
      compile(kernel, {TargetKind::cpu, processor.arch, processor.features}, {});
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  const auto loaded = device.load(*artifact);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const Status status = device.launch(**loaded,
                                      {DeviceTensor::matrix(device, element, m, k, x).ref(),
                                       DeviceTensor::matrix(device, element, k, n, w).ref(), y.ref()},
                                      nullptr);
  ASSERT_TRUE(status.ok()) << status.message();

  std::vector<double> want(m * n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = 0; j < n; ++j)
        want[i * n + j] += x[i * k + l] * w[l * n + j];
  EXPECT_LE(test::relativeError(y.get(), want), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(All, Targets,
                         testing::Combine(testing::ValuesIn(kProcessors),
                                          testing::Values(ElementType::f32, ElementType::bf16,
                                                          ElementType::f16)),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param).name) +
                                  elementName(std::get<1>(info.param));
                         });

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
