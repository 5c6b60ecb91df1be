// Loads and stores of one memory happen as they are written, wherever their blocks overlap.

#include <numeric>

#include <gtest/gtest.h>

#include "kernels/jit.h"
#include "tests/support/device_tensor.h"

namespace tilewright::test {
namespace {

constexpr int64_t kCount = 512;

/// Moves a block of a vector by `by` positions.
Kernel move(int64_t by) {
  return defineKernel("move", std::to_string(by), [by](KernelBuilder &k) {
    const View v = k.output("v", ElementType::f32, 1);
    const Index begin = k.blockColumns(v.dim(0), 2 * kCount).begin + 8;
    const Range from = k.range(Axis::columns, begin, kCount), to = k.range(Axis::columns, begin + by, kCount);
    k.store(v, to, v[from] + 0.5);
  });
}

/// Stores a block, and then another one over a part of it.
Kernel storeOver(int64_t by) {
  return defineKernel("store_over", std::to_string(by), [by](KernelBuilder &k) {
    const View x = k.input("x", ElementType::f32, 1), v = k.output("v", ElementType::f32, 1);
    const Index begin = k.blockColumns(v.dim(0), 2 * kCount).begin + 8;
    const Range from = k.range(Axis::columns, begin, kCount), to = k.range(Axis::columns, begin + by, kCount);
    k.store(v, from, x[from]);
    k.store(v, to, -x[from]);
  });
}

class MemoryOrder : public testing::TestWithParam<std::string> {
protected:
  std::unique_ptr<Runtime> runtime = openRuntime(GetParam());
  std::vector<double> numbers() const {
    std::vector<double> values(kCount + 24);
    std::iota(values.begin(), values.end(), 1);
    return values;
  }
};

TEST_P(MemoryOrder, ABlockMovesOverItself) {
  for (int64_t by : {-8, -1, 1, 3, 8}) {
    std::vector<double> want = numbers();
    const DeviceTensor v = DeviceTensor::vector(runtime->device(), ElementType::f32, want);
    const Status status = launch(*runtime, move(by), {v.ref()}, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    const std::vector<double> before = want;
    for (int64_t i = 8; i < 8 + kCount; ++i)
      want[i + by] = before[i] + 0.5;
    EXPECT_EQ(v.get(), want) << by;
  }
}

TEST_P(MemoryOrder, TheLastStoreStays) {
  for (int64_t by : {-8, -1, 1, 3, 8}) {
    const std::vector<double> x = numbers();
    std::vector<double> want(x.size());
    const DeviceTensor from = DeviceTensor::vector(runtime->device(), ElementType::f32, x);
    const DeviceTensor v = DeviceTensor::vector(runtime->device(), ElementType::f32, want);
    const Status status = launch(*runtime, storeOver(by), {from.ref(), v.ref()}, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    for (int64_t i = 8; i < 8 + kCount; ++i)
      want[i] = x[i];
    for (int64_t i = 8; i < 8 + kCount; ++i)
      want[i + by] = -x[i];
    EXPECT_EQ(v.get(), want) << by;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, MemoryOrder, testing::ValuesIn(testDevices()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace tilewright::test
