#include "bindings/c/failure.h"

#include <gtest/gtest.h>

namespace {

TEST(Failure, CodesOfStatuses) {
  using namespace tilewright;
  const auto codeOf = [](const Status &status) { return c::failureOf(status).code; };
  const Status fault =
      runtimeError("cuStreamSynchronize failed with CUDA error 700, CUDA_ERROR_ILLEGAL_ADDRESS (…)");
  EXPECT_EQ(codeOf(fault), TW_ERROR_DEVICE_FAULT);
  EXPECT_EQ(c::failureOf(fault).driverNumber, 700);
  EXPECT_EQ(codeOf(runtimeError(
                "not enough memory: 1 bytes were asked for, …: cuMemAllocAsync failed with CUDA error 2, …")),
            TW_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(codeOf(runtimeError("not enough memory: 1 bytes were asked for, the machine has 0")),
            TW_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(codeOf(userError("device 'cuda': cuInit failed with CUDA error 100, …")),
            TW_ERROR_UNSUPPORTED_DEVICE);
  EXPECT_EQ(codeOf(runtimeError("write: No space left on device")), TW_ERROR_INPUT_OUTPUT);
  EXPECT_EQ(codeOf(internalError("")), TW_ERROR_INTERNAL);
  EXPECT_EQ(codeOf(userError("labels")), TW_ERROR_USER);
}

} // namespace
