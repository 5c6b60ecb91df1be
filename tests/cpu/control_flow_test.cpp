// Branches and loops of kernels, with what they share.

#include <gtest/gtest.h>

#include "kernels/jit.h"
#include "tests/support/device_tensor.h"

namespace tilewright {
namespace {

using test::DeviceTensor;

Kernel minimumTwice() {
  return defineKernel("minimum_twice", "", [](KernelBuilder &k) {
    const View x = k.input("x", ElementType::f32, 1);
    const View a = k.output("a", ElementType::f32, 1), b = k.output("b", ElementType::f32, 1);
    const Range one = k.blockRows(a.dim(0), 1), all = k.whole(x.dim(0));
    k.ifThen(one.begin != 0, [&] { k.store(b, one, min(x[all], Axis::columns)); });
    k.store(a, one, min(x[all] + 1.0, Axis::columns));
  });
}

// Both minima begin with infinity. A branch that puts it into memory does so only for programs that take the
// branch.
TEST(ControlFlow, BranchKeepsItsBuffersToItself) {
  auto runtime = test::openRuntime("cpu", 1);
  Device &device = runtime->device();
  const DeviceTensor x = DeviceTensor::vector(device, ElementType::f32, std::vector<float>{6, 4, 5});
  DeviceTensor a = DeviceTensor::vector(device, ElementType::f32, std::vector<float>{0, 0, 0});
  DeviceTensor b = DeviceTensor::vector(device, ElementType::f32, std::vector<float>{0, 0, 0});
  const Status status = launch(*runtime, minimumTwice(), {x.ref(), a.ref(), b.ref()}, nullptr);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(a.get(), (std::vector<double>{5, 5, 5}));
  EXPECT_EQ(b.get(), (std::vector<double>{0, 4, 4}));
}

Kernel addUp() {
  return defineKernel("add_up", "", [](KernelBuilder &k) {
    const View sum = k.output("sum", ElementType::i32, 1);
    const Index times = k.index("times");
    const Range one = k.blockRows(sum.dim(0), 1);
    const auto next = [](Index, const std::vector<Tile> &sum) { return std::vector<Tile>{sum[0] + 1.0}; };
    k.store(sum, one, k.forRange(k.constant(0), times, 1, {sum[one]}, next)[0]);
  });
}

TEST(ControlFlow, LoopRunsAsOftenAsItSays) {
  auto runtime = test::openRuntime("cpu", 1);
  for (int64_t times : {0, 1, 5}) {
    DeviceTensor sum = DeviceTensor::vector(runtime->device(), ElementType::i32, std::vector<int>{7, 8});
    const Status status = launch(*runtime, addUp(), {sum.ref(), times}, nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(sum.get(), (std::vector<double>{7.0 + times, 8.0 + times}));
  }
}

} // namespace
} // namespace tilewright
