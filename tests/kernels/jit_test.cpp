// The way from a kernel to a launch.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/examples/examples.h"
#include "kernels/jit.h"
#include "tests/support/device_tensor.h"

namespace tilewright::test {
namespace {

TEST(Jit, CompilesOnce) {
  auto runtime = openRuntime();
  const StatusOr<KernelHandle> first = jit(*runtime, vectorAdd(ElementType::f32));
  const StatusOr<KernelHandle> second = jit(*runtime, vectorAdd(ElementType::f32));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(runtime->counters().compiled, 1);
}

TEST(Jit, OptionsAreAnotherKernel) {
  auto runtime = openRuntime();
  CompileOptions options;
  options.schedule.contractionStep = 64;
  const auto first = jit(*runtime, matmulBiasGelu(ElementType::f32));
  const auto second = jit(*runtime, matmulBiasGelu(ElementType::f32), options);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(*first, *second);
}

TEST(Jit, ManyAtOnceComeInTheirOrder) {
  auto runtime = openRuntime();
  std::vector<JitRequest> requests;
  for (ElementType element : {ElementType::f32, ElementType::bf16, ElementType::f16})
    for (Kernel (*make)(ElementType) : {vectorAdd, rowSoftmax, layerNorm, matmulBiasGelu})
      requests.push_back({make(element), {}});
  for (int round = 0; round < 2; ++round) {
    const StatusOr<std::vector<KernelHandle>> kernels = jitAll(*runtime, requests);
    ASSERT_TRUE(kernels.ok()) << kernels.status().message();
    ASSERT_EQ(kernels->size(), requests.size());
    for (size_t i = 0; i < requests.size(); ++i)
      EXPECT_EQ((*kernels)[i]->artifact().kernel, requests[i].kernel.name);
  }
  EXPECT_EQ(runtime->counters().compiled, int64_t(requests.size()));
}

TEST(Jit, AMistakeInAKernelIsACompileError) {
  auto runtime = openRuntime();
  const Kernel wrong = defineKernel("wrong", "", [](KernelBuilder &k) {
    const View x = k.input("x", ElementType::f32, 1), y = k.output("y", ElementType::f32, 1);
    const Range a = k.blockColumns(x.dim(0), 32), b = k.range(Axis::columns, k.constant(0), 48);
    k.store(y, a, x[a] + x[b]);
  });
  const StatusOr<KernelHandle> kernel = jit(*runtime, wrong);
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.status().kind(), StatusKind::compile);
  EXPECT_THAT(kernel.status().message(), testing::HasSubstr("wrong"));
  EXPECT_FALSE(jitAll(*runtime, {{vectorAdd(ElementType::f32), {}}, {wrong, {}}}).ok());
}

} // namespace
} // namespace tilewright::test
