// A long row's maximum, sum of exponentials and softmax, whatever the order of its numbers: the sum's shift
// is that of the first block until a number is far above it.

#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "kernels/jit.h"
#include "runtime/cpu/cpu_device.h"
#include "tests/support/device_tensor.h"
#include "tests/support/processors.h"

namespace tilewright {
namespace {

using test::DeviceTensor;
using test::Processor;

constexpr int64_t kColumns = 6 * 1024 + 300; // six blocks of the interior, and what is behind it
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Row {
  const char *name;
  std::function<double(int64_t column)> at;
};

double wave(int64_t column) { return 3 * std::sin(0.37 * double(column)); }

const Row kRows[] = {
    {"level", wave},
    {"constant", [](int64_t) { return 7.0; }},
    {"rises a little", [](int64_t j) { return wave(j) + 3 * double(j / 1024); }},
    {"rises", [](int64_t j) { return wave(j) + 40 * double(j / 1024); }},
    {"rises beyond exp", [](int64_t j) { return wave(j) + 300 * double(j / 1024); }},
    {"falls", [](int64_t j) { return wave(j) - 40 * double(j / 1024); }},
    {"one far above, late", [](int64_t j) { return j == 4500 ? 120.0 : wave(j); }},
    {"one far above, at the end", [](int64_t j) { return j == kColumns - 1 ? 120.0 : wave(j); }},
    {"one a little above", [](int64_t j) { return j == 4500 ? 15.0 : wave(j); }},
    {"begins very low", [](int64_t j) { return j < 1024 ? -30000.0 : wave(j); }},
    {"begins with none", [](int64_t j) { return j < 2500 ? -kInfinity : wave(j) - 500; }},
    {"has one number", [](int64_t j) { return j == 3000 ? -4.0 : -kInfinity; }},
    {"has none", [](int64_t) { return -kInfinity; }},
    {"an infinity first", [](int64_t j) { return j == 3 ? kInfinity : wave(j); }},
    {"an infinity late", [](int64_t j) { return j == 5000 ? kInfinity : wave(j); }},
    {"a NaN first", [](int64_t j) { return j == 3 ? NAN : wave(j); }},
    {"a NaN late", [](int64_t j) { return j == 5000 ? NAN : wave(j); }},
    {"a NaN at the end", [](int64_t j) { return j == kColumns - 1 ? NAN : wave(j); }},
    {"a NaN and an infinity", [](int64_t j) { return j == 5000   ? NAN
                                                     : j == 2000 ? kInfinity
                                                                 : wave(j); }},
};
constexpr int64_t kRowCount = std::size(kRows);

/// m = max x, s = Σ exp(x - m), y = exp(x - m) / s
Kernel softmax(ElementType element) {
  return defineKernel("softmax_and_sums", elementName(element), [element](KernelBuilder &k) {
    const View x = k.input("x", element, 2), y = k.output("y", element, 2);
    const View most = k.output("most", ElementType::f32, 1), sums = k.output("sums", ElementType::f32, 1);
    const Range rows = k.blockRows(x.dim(0), 1), all = k.whole(x.dim(1));
    const Tile z = x.at(rows, all), m = max(z, Axis::columns), e = exp(z - m), s = sum(e, Axis::columns);
    k.store(most, rows, m);
    k.store(sums, rows, s);
    k.store(y, rows, all, e / s);
  });
}

const Processor kProcessors[] = {
    test::kSse2,
    test::kAvx2,
    test::kAvx512,
};

class SoftmaxRows : public testing::TestWithParam<std::tuple<Processor, ElementType>> {
protected:
  void SetUp() override {
    if (!canRun(processor)) GTEST_SKIP() << "this processor lacks some of " << processor.features;
    // Without F16C, LLVM calls a function of libgcc, which a test may be linked without.
    if (element == ElementType::f16 && !*processor.features) GTEST_SKIP() << "f16 needs F16C here";
    for (const Row &row : kRows)
      for (int64_t column = 0; column < kColumns; ++column)
        x.push_back(test::rounded(row.at(column), element));
    y.poison(), most.poison(), sums.poison();
    const auto artifact =
        compile(softmax(element), {TargetKind::cpu, processor.arch, processor.features}, {});
    ASSERT_TRUE(artifact.ok()) << artifact.status().message();
    const auto loaded = device.load(*artifact);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    const DeviceTensor input = DeviceTensor::matrix(device, element, kRowCount, kColumns, x);
    const Status status = device.launch(**loaded, {input.ref(), y.ref(), most.ref(), sums.ref()}, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  /// By how much a number of the softmax may be off: what rounding it adds, of numbers below f16's normal
  /// ones as well, and a few units of fp32.
  double tolerance(double want) const {
    if (element == ElementType::f16) return want * (0x1p-11 + 4e-6) + 0x1p-25;
    return want * ((element == ElementType::bf16 ? 0x1p-8 : 0) + 4e-6) + 1e-37;
  }

  const Processor processor = std::get<0>(GetParam());
  const ElementType element = std::get<1>(GetParam());
  CpuDevice device{1};
  std::vector<double> x;
  DeviceTensor y = DeviceTensor::matrix(device, element, kRowCount, kColumns);
  DeviceTensor most = DeviceTensor::vector(device, ElementType::f32, kRowCount);
  DeviceTensor sums = DeviceTensor::vector(device, ElementType::f32, kRowCount);
};

TEST_P(SoftmaxRows, AreRightInAnyOrder) {
  const std::vector<double> gotMost = most.get(), gotSums = sums.get(), gotY = y.get();
  for (int64_t row = 0; row < kRowCount; ++row) {
    SCOPED_TRACE(kRows[row].name);
    const double *z = &x[row * kColumns];
    double m = -kInfinity, s = 0;
    for (int64_t j = 0; j < kColumns; ++j)
      m = std::isnan(m) || m >= z[j] ? m : z[j];
    if (std::isnan(m)) {
      EXPECT_TRUE(std::isnan(gotMost[row]) && std::isnan(gotSums[row]))
          << gotMost[row] << " " << gotSums[row];
      continue;
    }
    EXPECT_EQ(gotMost[row], m);
    if (m == -kInfinity) {
      EXPECT_EQ(gotSums[row], 0);
      continue;
    }
    if (m == kInfinity) {
      EXPECT_TRUE(std::isnan(gotSums[row])) << gotSums[row];
      continue;
    }
    for (int64_t j = 0; j < kColumns; ++j)
      s += std::exp(z[j] - m);
    EXPECT_NEAR(gotSums[row] / s, 1, 1e-6);
    for (int64_t j = 0; j < kColumns; ++j) {
      const double want = std::exp(z[j] - m) / s;
      ASSERT_NEAR(gotY[row * kColumns + j], want, tolerance(want)) << "column " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, SoftmaxRows,
                         testing::Combine(testing::ValuesIn(kProcessors),
                                          testing::Values(ElementType::f32, ElementType::bf16,
                                                          ElementType::f16)),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param).name) +
                                  elementName(std::get<1>(info.param));
                         });

} // namespace
} // namespace tilewright
