#include "runtime/cuda/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cuda/describe_device.h"
#include "runtime/cuda/handles.h"
#include "tests/support/fake_driver.h"

namespace tilewright {
namespace {

using namespace cuda;
using test::FakeDriver;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CudaDriver, ErrorsNameTheCallTheCodeItsMeaningAndWhatToDo) {
  FakeDriver fake;
  Status status = fake.table().error(CUDA_ERROR_OUT_OF_MEMORY, "cuMemAllocAsync");
  EXPECT_EQ(status.kind(), StatusKind::memory);
  EXPECT_EQ(status.driverNumber(), 2);
  EXPECT_EQ(status.message(),
            "cuMemAllocAsync failed with CUDA error 2, CUDA_ERROR_OUT_OF_MEMORY (out of memory); free device "
            "memory (nvidia-smi shows who holds it) or set a smaller workspace limit");
}

TEST(CudaDriver, KindsOfErrors) {
  FakeDriver fake;
  const auto kindOf = [&](CUresult result) { return fake.table().error(result, "cuFoo").kind(); };
  EXPECT_EQ(kindOf(CUDA_ERROR_NO_DEVICE), StatusKind::noDevice);
  EXPECT_EQ(kindOf(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH), StatusKind::noDevice);
  EXPECT_EQ(kindOf(CUDA_ERROR_ILLEGAL_ADDRESS), StatusKind::device);
  EXPECT_EQ(kindOf(static_cast<CUresult>(12345)), StatusKind::device);
}

TEST(CudaDriver, ErrorsThatTheDriverDoesNotKnow) {
  FakeDriver fake;
  EXPECT_EQ(fake.table().error(static_cast<CUresult>(12345), "cuFoo").message(),
            "cuFoo failed with CUDA error 12345, of no known name (of no known meaning)");
}

TEST(CudaDriver, ErrorsBeforeTheDriverIsThere) {
  EXPECT_THAT(Driver().error(CUDA_ERROR_NO_DEVICE, "cuInit").message(),
              AllOf(HasSubstr("cuInit failed with CUDA error 100"), HasSubstr("CUDA_VISIBLE_DEVICES")));
}

TEST(CudaDriver, CallsGiveAStatus) {
  FakeDriver fake;
  EXPECT_TRUE(TW_CUDA(fake.table(), cuInit, 0).ok());
  fake.fail("cuInit", CUDA_ERROR_NO_DEVICE);
  EXPECT_THAT(TW_CUDA(fake.table(), cuInit, 0).message(), HasSubstr("cuInit failed"));
}

TEST(CudaDriver, OpeningItEitherWorksOrSaysWhyNot) {
  StatusOr<const Driver *> driver = loadDriver();
  if (driver.ok()) {
    EXPECT_EQ(*loadDriver(), *driver);
    return;
  }
  EXPECT_EQ(driver.status().kind(), StatusKind::noDevice);
  EXPECT_THAT(driver.status().message(), HasSubstr("use the device cpu"));
}

TEST(CudaContext, IsRetainedWhileSomebodyHoldsIt) {
  FakeDriver fake;
  {
    auto context = Context::retain(fake.table(), 0);
    ASSERT_TRUE(context.ok());
    std::shared_ptr<const Context> second = *context;
    EXPECT_EQ(fake.retained, 1);
  }
  EXPECT_EQ(fake.retained, 0);
}

TEST(CudaContext, IsCurrentOnlyWhereItIsNeededAndTheCallersComesBack) {
  FakeDriver fake;
  auto context = *Context::retain(fake.table(), 0);
  char other;
  auto foreign = reinterpret_cast<CUcontext>(&other);
  FakeDriver::setCurrent(foreign);
  {
    CurrentContext outer(*context);
    EXPECT_TRUE(outer.status().ok());
    EXPECT_EQ(FakeDriver::current(), fake.primaryContext());
    CurrentContext inner(*context);
  }
  EXPECT_EQ(FakeDriver::current(), foreign);

  FakeDriver::setCurrent(fake.primaryContext());
  fake.forgetCalls();
  { CurrentContext current(*context); }
  EXPECT_THAT(fake.calls(), ::testing::ElementsAre("cuCtxGetCurrent"));
}

TEST(CudaContext, SaysWhenItCannotBeCurrent) {
  FakeDriver fake;
  auto context = *Context::retain(fake.table(), 0);
  fake.fail("cuCtxPushCurrent", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CurrentContext current(*context);
  EXPECT_THAT(current.status().message(), HasSubstr("CUDA error 709"));
}

Event makeEvent(const FakeDriver &fake, const std::shared_ptr<const Context> &context) {
  CurrentContext current(*context);
  CUevent event = nullptr;
  EXPECT_EQ(fake.table().cuEventCreate(&event, 0), CUDA_SUCCESS);
  return Event(context, event);
}

TEST(CudaHandles, AreDestroyedOnceAndKeepTheirContext) {
  FakeDriver fake;
  {
    auto context = *Context::retain(fake.table(), 0);
    Event first = makeEvent(fake, context), second = makeEvent(fake, context);
    context.reset();
    EXPECT_EQ(fake.events.size(), 2u);
    Event moved = std::move(first);
    EXPECT_EQ(fake.events.size(), 2u);
    moved = std::move(second);
    EXPECT_EQ(fake.events.size(), 1u);
    EXPECT_EQ(fake.retained, 1);
  }
  EXPECT_EQ(fake.events.size(), 0u);
  EXPECT_EQ(fake.retained, 0);
  EXPECT_THAT(fake.mistakes, IsEmpty());
}

TEST(CudaTarget, IsTheNewestThatTheGpuAndItsDriverTake) {
  const int cuda11 = 11080, cuda12 = 12010;
  EXPECT_EQ(targetFor(8, 0, cuda12)->str(), "nvptx sm_80");
  EXPECT_EQ(targetFor(8, 6, cuda12)->str(), "nvptx sm_86");
  EXPECT_EQ(targetFor(8, 9, cuda12)->str(), "nvptx sm_89");
  EXPECT_EQ(targetFor(9, 0, cuda11)->str(), "nvptx sm_80");
  EXPECT_EQ(targetFor(9, 0, cuda12)->str(), "nvptx sm_90a");
  EXPECT_EQ(targetFor(9, 1, cuda12)->str(), "nvptx sm_90"); // sm_90a's code runs on 9.0 alone
  EXPECT_EQ(targetFor(12, 0, 13000)->str(), "nvptx sm_90");
  Status old = targetFor(7, 5, cuda12).status();
  EXPECT_EQ(old.kind(), StatusKind::noDevice);
  EXPECT_THAT(old.message(), HasSubstr("found 7.5"));
}

TEST(CudaTarget, AnEarlierOneMayBeAskedFor) {
  const Target hopper = *targetFor(9, 0, 12010), ada = *targetFor(8, 9, 12010);
  for (const char *name : {"sm_80", "sm_89", "sm_90", "sm_90a"})
    EXPECT_EQ(olderTarget(name, hopper)->arch, name);
  EXPECT_EQ(olderTarget("sm_80", ada)->arch, "sm_80");
  EXPECT_FALSE(olderTarget("sm_90a", *targetFor(9, 1, 12010)).ok());
  for (const char *name : {"sm_90", "sm_90a", "cpu", "sm_75"}) {
    Status refused = olderTarget(name, ada).status();
    EXPECT_EQ(refused.kind(), StatusKind::user) << name;
    EXPECT_THAT(refused.message(), HasSubstr(std::string("'") + name + "'"));
  }
}

} // namespace
} // namespace tilewright
