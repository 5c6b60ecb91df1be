// The example kernels through the calls that anybody's kernel goes through, on sizes that fit no block.

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "kernels/examples/examples.h"
#include "kernels/jit.h"
#include "tests/support/device_tensor.h"

namespace tilewright::test {
namespace {

using Numbers = std::vector<double>;
using Sizes = std::pair<int64_t, int64_t>;

class Examples : public testing::TestWithParam<std::tuple<std::string, ElementType>> {
protected:
  const ElementType element = std::get<1>(GetParam());
  std::unique_ptr<Runtime> runtime = openRuntime(std::get<0>(GetParam()));
  Device &device = runtime->device();
  const Sizes sizes[4] = {{1, 1}, {7, 33}, {70, 1000}, {3, 5001}};
  std::mt19937 random{7};

  Numbers numbers(int64_t count) {
    std::normal_distribution<double> normal;
    Numbers values(count);
    for (double &value : values)
      value = rounded(normal(random), element);
    return values;
  }

  void run(const Kernel &kernel, const std::vector<KernelArgument> &arguments) {
    const Status status = launch(*runtime, kernel, arguments, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  void expectClose(const DeviceTensor &got, const Numbers &want) {
    EXPECT_LE(relativeError(got.get(), want), element == ElementType::f32 ? 1e-6 : 3e-3);
    EXPECT_TRUE(got.gapsUntouched());
  }
};

TEST_P(Examples, VectorAdd) {
  for (int64_t n : {1, 31, 1024, 5000}) {
    const Numbers a = numbers(n), b = numbers(n);
    const auto da = DeviceTensor::vector(device, element, a), db = DeviceTensor::vector(device, element, b);
    auto dc = DeviceTensor::vector(device, element, n);
    dc.poison();
    run(vectorAdd(element), {da.ref(), db.ref(), dc.ref()});
    Numbers want(n);
    for (int64_t i = 0; i < n; ++i)
      want[i] = a[i] + b[i];
    expectClose(dc, want);
  }
}

TEST_P(Examples, RowSoftmax) {
  for (auto [rows, columns] : sizes) {
    Numbers x = numbers(rows * columns), want;
    for (double &value : x)
      value *= 32; // exact in every type
    const auto dx = DeviceTensor::matrix(device, element, rows, columns, x, 3);
    auto dy = DeviceTensor::matrix(device, element, rows, columns, 2);
    dy.poison();
    run(rowSoftmax(element), {dx.ref(), dy.ref()});
    for (int64_t i = 0; i < rows; ++i) {
      const double *row = &x[i * columns];
      const double top = *std::max_element(row, row + columns);
      double total = 0;
      for (int64_t j = 0; j < columns; ++j)
        total += std::exp(row[j] - top);
      for (int64_t j = 0; j < columns; ++j)
        want.push_back(std::exp(row[j] - top) / total);
    }
    expectClose(dy, want);
  }
}

TEST_P(Examples, LayerNorm) {
  const float epsilon = 1e-5f;
  for (auto [rows, columns] : sizes) {
    const Numbers x = numbers(rows * columns), gain = numbers(columns), bias = numbers(columns);
    const auto dx = DeviceTensor::matrix(device, element, rows, columns, x);
    const auto dgain = DeviceTensor::vector(device, element, gain);
    const auto dbias = DeviceTensor::vector(device, element, bias);
    auto dy = DeviceTensor::matrix(device, element, rows, columns, 5);
    dy.poison();
    run(layerNorm(element), {dx.ref(), dgain.ref(), dbias.ref(), epsilon, dy.ref()});
    Numbers want;
    for (int64_t i = 0; i < rows; ++i) {
      const double *row = &x[i * columns];
      double mean = 0, variance = 0;
      for (int64_t j = 0; j < columns; ++j)
        mean += row[j] / columns;
      for (int64_t j = 0; j < columns; ++j)
        variance += (row[j] - mean) * (row[j] - mean) / columns;
      for (int64_t j = 0; j < columns; ++j)
        want.push_back((row[j] - mean) / std::sqrt(variance + epsilon) * gain[j] + bias[j]);
    }
    expectClose(dy, want);
  }
}

TEST_P(Examples, MatmulBiasGelu) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1}, {37, 131, 70}, {130, 200, 513}}) {
    const Numbers x = numbers(m * k), w = numbers(k * n), bias = numbers(n);
    const auto dx = DeviceTensor::matrix(device, element, m, k, x, 1);
    const auto dw = DeviceTensor::matrix(device, element, k, n, w);
    const auto dbias = DeviceTensor::vector(device, element, bias);
    auto dy = DeviceTensor::matrix(device, element, m, n, 7);
    dy.poison();
    run(matmulBiasGelu(element), {dx.ref(), dw.ref(), dbias.ref(), dy.ref()});
    Numbers want;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double t = bias[j];
        for (int64_t l = 0; l < k; ++l)
          t += x[i * k + l] * w[l * n + j];
        want.push_back(t / 2 * (1 + std::erf(t / std::sqrt(2))));
      }
    expectClose(dy, want);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Examples,
    testing::Combine(testing::ValuesIn(testDevices()),
                     testing::Values(ElementType::f32, ElementType::bf16, ElementType::f16)),
    [](const auto &info) { return std::get<0>(info.param) + "_" + elementName(std::get<1>(info.param)); });

} // namespace
} // namespace tilewright::test
