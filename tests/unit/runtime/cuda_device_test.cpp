#include "runtime/cuda/cuda_device.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cuda/power_limit.h"
#include "runtime/runtime.h"
#include "tests/support/fake_driver.h"
#include "tests/support/temporary_folder.h"

namespace tilewright {
namespace {

using namespace cuda;
using test::fakeCubin;
using test::FakeDriver;
using ::testing::AllOf;

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::optional<int> noPowerLimit(const std::string &) { return std::nullopt; }

StatusOr<std::unique_ptr<Device>> openFake(const FakeDriver &fake, int index = 0) {
  return CudaDevice::open(fake.table(), index, noPowerLimit);
}

Stream streamNumber(intptr_t number) { return reinterpret_cast<Stream>(number); }

class CudaDeviceTest : public ::testing::Test {
protected:
  CudaDeviceTest() : device(*openFake(fake)) { fake.forgetCalls(); }
  ~CudaDeviceTest() override {
    device.reset();
    EXPECT_EQ(fake.retained, 0);
    EXPECT_TRUE(fake.memory.empty());
    EXPECT_TRUE(fake.modules.empty());
    EXPECT_TRUE(fake.events.empty());
    EXPECT_TRUE(fake.links.empty());
    EXPECT_TRUE(fake.hostMemory.empty());
    EXPECT_TRUE(fake.deviceMemory.empty());
    EXPECT_TRUE(fake.streams.empty());
    EXPECT_THAT(fake.mistakes, IsEmpty());
    EXPECT_EQ(FakeDriver::current(), nullptr);
  }

  FakeDriver fake;
  std::unique_ptr<Device> device;
};

TEST_F(CudaDeviceTest, SaysWhatItIs) {
  const DeviceInfo &info = device->info();
  EXPECT_EQ(info.name, "Fake GPU, 132 multiprocessors, 1980 MHz, CUDA 13.0");
  EXPECT_EQ(info.units, 132);
  EXPECT_EQ(info.memoryBytes, int64_t(80) << 30);
  EXPECT_EQ(info.sharedBytes, 232448);
  EXPECT_EQ(info.cacheBytes, 52428800);
  EXPECT_EQ(device->lastCacheBytes(), 52428800);
  EXPECT_EQ(info.assembler, "CUDA 13.0 for sm_90");
  EXPECT_EQ(device->target().str(), "nvptx sm_90a");
}

TEST(CudaDevice, MayBeOpenedForEarlierCode) {
  FakeDriver fake;
  auto portable = *CudaDevice::open(fake.table(), 0, noPowerLimit, "sm_80");
  EXPECT_EQ(portable->target().str(), "nvptx sm_80");
  EXPECT_THAT(portable->info().name, HasSubstr("code for sm_80"));
  EXPECT_EQ(portable->info().sharedBytes, 163 << 10);
  EXPECT_FALSE(portable->info().warpgroups);
  EXPECT_NE(portable->info().fingerprint, (*openFake(fake))->info().fingerprint);
  EXPECT_FALSE(CudaDevice::open(fake.table(), 0, noPowerLimit, "sm_100").ok());
}

TEST(CudaDevice, ThePowerLimitIsPartOfWhatItIs) {
  FakeDriver fake;
  auto limited = *CudaDevice::open(fake.table(), 0, [](const std::string &address) {
    return std::optional<int>(address == "0000:01:00.0" ? 700 : 0);
  });
  EXPECT_THAT(limited->info().name, HasSubstr("1980 MHz, 700 W"));
  EXPECT_NE(limited->info().fingerprint, (*openFake(fake))->info().fingerprint);
}

int failing() { return 3; }

// An administrator lowers the enforced limit for a day; the default one is the board's own.
TEST(PowerLimit, IsTheBoardsNotTheDays) {
  static unsigned enforced;
  const SymbolLookup library = [](const std::string &name) -> void * {
    if (name == "nvmlInit_v2" || name == "nvmlShutdown") return reinterpret_cast<void *>(+[] { return 0; });
    if (name == "nvmlDeviceGetHandleByPciBusId_v2")
      return reinterpret_cast<void *>(+[](const char *, void **) { return 0; });
    if (name == "nvmlDeviceGetEnforcedPowerLimit")
      return reinterpret_cast<void *>(
          +[](void *, unsigned *milliwatts) { return *milliwatts = enforced, 0; });
    if (name == "nvmlDeviceGetPowerManagementDefaultLimit")
      return reinterpret_cast<void *>(+[](void *, unsigned *milliwatts) { return *milliwatts = 700000, 0; });
    return nullptr;
  };
  for (unsigned watts : {700, 500}) {
    enforced = 1000 * watts;
    EXPECT_EQ(powerLimitWatts("0000:01:00.0", library), 700);
  }
  EXPECT_FALSE(powerLimitWatts("", [](const char *) -> void * { return nullptr; }));
  EXPECT_FALSE(powerLimitWatts("", [](const char *) { return reinterpret_cast<void *>(failing); }));
}

TEST(CudaDevice, ItsFingerprintIsOfWhatTuningDependsOn) {
  FakeDriver fake;
  const std::string fingerprint = (*openFake(fake))->info().fingerprint;
  EXPECT_EQ((*openFake(fake))->info().fingerprint, fingerprint);
  fake.memoryBytes -= 1 << 20; // what firmware keeps differs from board to board
  fake.memoryBytes += 1 << 21;
  EXPECT_EQ((*openFake(fake))->info().fingerprint, fingerprint);
  fake.version = 13010;
  EXPECT_NE((*openFake(fake))->info().fingerprint, fingerprint);
}

TEST(CudaDevice, RefusesWhatIsNotThereOrTooOld) {
  FakeDriver fake;
  Status missing = openFake(fake, 3).status();
  EXPECT_EQ(missing.kind(), StatusKind::noDevice);
  EXPECT_THAT(missing.message(), AllOf(HasSubstr("index 3"), HasSubstr("one device, cuda:0")));
  fake.deviceCount = 2;
  EXPECT_TRUE(openFake(fake, 1).ok());
  EXPECT_THAT(openFake(fake, 2).status().message(), HasSubstr("2 devices, up to cuda:1"));
  EXPECT_FALSE(openFake(fake, -1).ok());

  fake.memoryPools = 0;
  EXPECT_THAT(openFake(fake).status().message(), HasSubstr("memory pools"));
  fake.major = 7;
  EXPECT_EQ(openFake(fake).status().kind(), StatusKind::noDevice);
  EXPECT_EQ(fake.retained, 0);
}

TEST(CudaDevice, PooledMemoryIsKeptUnlessSomebodySaidOtherwise) {
  FakeDriver fake;
  ASSERT_TRUE(openFake(fake).ok());
  EXPECT_EQ(fake.releaseThreshold, UINT64_MAX);
  fake.releaseThreshold = 4096;
  ASSERT_TRUE(openFake(fake).ok());
  EXPECT_EQ(fake.releaseThreshold, 4096u);
}

TEST(CudaDevice, WhateverFailsWhileOpeningIsReportedAndReleased) {
  for (const char *function :
       {"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetAttribute", "cuDeviceGetName", "cuDeviceTotalMem",
        "cuDriverGetVersion", "cuDevicePrimaryCtxRetain", "cuMemPoolSetAttribute"}) {
    FakeDriver fake;
    fake.fail(function, CUDA_ERROR_DEVICE_UNAVAILABLE);
    EXPECT_THAT(openFake(fake).status().message(),
                HasSubstr(std::string(function) + " failed with CUDA error 46"));
    EXPECT_EQ(fake.retained, 0) << function;
  }
}

TEST_F(CudaDeviceTest, CopiesArriveBeforeTheCallReturns) {
  std::vector<int> source(1000), back(1000);
  std::iota(source.begin(), source.end(), 0);
  const std::size_t bytes = source.size() * sizeof(int);
  FakeDriver::setCurrent(fake.primaryContext()); // then calls end with what they are about
  auto buffer = device->allocate(bytes, nullptr);
  ASSERT_TRUE(buffer.ok());
  ASSERT_TRUE(device->copyToDevice(buffer->data(), source.data(), bytes, nullptr).ok());
  EXPECT_EQ(fake.calls().back(), "cuStreamSynchronize");
  ASSERT_TRUE(device->fill(buffer->data(), 0xFF, 8, nullptr).ok());
  ASSERT_TRUE(device->copyToHost(back.data(), buffer->data(), bytes, nullptr).ok());
  EXPECT_EQ(fake.calls().back(), "cuStreamSynchronize");
  source[0] = source[1] = -1;
  EXPECT_EQ(back, source);
  FakeDriver::setCurrent(nullptr);
}

TEST_F(CudaDeviceTest, NothingToCopyIsNoCall) {
  EXPECT_TRUE(device->copyToDevice(nullptr, nullptr, 0, nullptr).ok());
  EXPECT_TRUE(device->copyToHost(nullptr, nullptr, 0, nullptr).ok());
  EXPECT_TRUE(device->fill(nullptr, 0, 0, nullptr).ok());
  EXPECT_THAT(fake.calls(), IsEmpty());
}

TEST_F(CudaDeviceTest, MemoryComesAndGoesInItsStreamsOrder) {
  auto buffer = device->allocate(100, streamNumber(7));
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->bytes(), 100u);
  Buffer copy = *buffer;
  buffer = Buffer();
  EXPECT_EQ(fake.memory.size(), 1u);
  copy = Buffer();
  EXPECT_TRUE(fake.memory.empty());
  EXPECT_THAT(fake.calls(), Not(::testing::Contains("cuStreamSynchronize")));
}

TEST_F(CudaDeviceTest, TensorsWithoutElementsHaveAnAddress) {
  auto buffer = device->allocate(0, nullptr);
  ASSERT_TRUE(buffer.ok());
  EXPECT_NE(buffer->data(), nullptr);
  EXPECT_EQ(buffer->bytes(), 0u);
}

TEST_F(CudaDeviceTest, MemoryMayOutliveItsDevice) {
  auto buffer = device->allocate(100, nullptr);
  device.reset();
  EXPECT_EQ(fake.retained, 1);
  buffer = Buffer();
  EXPECT_TRUE(fake.memory.empty());
  EXPECT_EQ(fake.retained, 0);
}

TEST_F(CudaDeviceTest, TooLittleMemorySaysHowMuchThereIs) {
  Status status = device->allocate(std::size_t(1) << 50, nullptr).status();
  EXPECT_EQ(status.kind(), StatusKind::memory);
  EXPECT_EQ(status.driverNumber(), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("1024 TiB (1125899906842624 bytes) were asked for"),
                                      HasSubstr("1000 bytes free"), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"),
                                      HasSubstr("workspace limit")));
}

TEST_F(CudaDeviceTest, AFailedFreeThrowsNothing) {
  auto buffer = device->allocate(100, nullptr);
  fake.fail("cuMemFreeAsync", CUDA_ERROR_DEINITIALIZED);
  buffer = Buffer();
  fake.fail("cuMemFreeAsync", CUDA_SUCCESS);
  std::free(reinterpret_cast<void *>(fake.memory.begin()->first));
  fake.memory.clear();
}

TEST_F(CudaDeviceTest, ErrorsOfEarlierWorkShowWhenItIsWaitedFor) {
  fake.fail("cuStreamSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(device->synchronize(nullptr).message(),
              AllOf(HasSubstr("CUDA error 700"), HasSubstr("compute-sanitizer")));
  int value = 0;
  EXPECT_FALSE(device->copyToDevice(&value, &value, sizeof value, nullptr).ok());
  fake.fail("cuMemsetD8Async", CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_FALSE(device->fill(&value, 0, sizeof value, nullptr).ok());
}

TEST_F(CudaDeviceTest, CopiesOnTheDeviceWaitForNothing) {
  const std::vector<int> source = {1, 2, 3};
  std::vector<int> destination(3);
  FakeDriver::setCurrent(fake.primaryContext());
  ASSERT_TRUE(device->copy(destination.data(), source.data(), 12, streamNumber(3)).ok());
  EXPECT_EQ(destination, source);
  EXPECT_EQ(fake.calls().back(), "cuMemcpyDtoDAsync");
  fake.forgetCalls();
  EXPECT_TRUE(device->copy(nullptr, nullptr, 0, nullptr).ok());
  EXPECT_THAT(fake.calls(), IsEmpty());
  fake.fail("cuMemcpyDtoDAsync", CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(device->copy(destination.data(), source.data(), 12, nullptr).message(),
              HasSubstr("cuMemcpyDtoDAsync failed with CUDA error 700"));
  FakeDriver::setCurrent(nullptr);
}

TEST_F(CudaDeviceTest, ThePeakIsOfTheWorkAlone) {
  auto before = device->allocate(5000, nullptr);
  { auto larger = device->allocate(1 << 20, nullptr); } // an earlier peak
  const StatusOr<int64_t> peak = device->peakBytes(nullptr, [&]() -> Status {
    TW_RETURN_IF_ERROR(device->allocate(1000, nullptr).status());
    return device->allocate(700, nullptr).status(); // the first is free again
  });
  ASSERT_TRUE(peak.ok()) << peak.status().message();
  EXPECT_EQ(*peak, 1000);
  EXPECT_EQ(device->peakBytes(nullptr, [] { return userError("no"); }).status().message(), "no");
  for (const char *function : {"cuMemPoolGetAttribute", "cuMemPoolSetAttribute", "cuStreamSynchronize"}) {
    fake.fail(function, CUDA_ERROR_DEINITIALIZED);
    EXPECT_FALSE(device->peakBytes(nullptr, [] { return Status(); }).ok()) << function;
    fake.fail(function, CUDA_SUCCESS);
  }
}

TEST_F(CudaDeviceTest, KnowsWhichStreamIsCaptured) {
  EXPECT_FALSE(device->isCapturing(nullptr));
  EXPECT_FALSE(device->isCapturing(streamNumber(3)));
  fake.captured = reinterpret_cast<CUstream>(3);
  EXPECT_TRUE(device->isCapturing(streamNumber(3)));
  EXPECT_FALSE(device->isCapturing(streamNumber(4)));
  EXPECT_TRUE(device->isCapturing(nullptr)); // it may not wait then
  fake.captured.reset();
}

TEST_F(CudaDeviceTest, VisibleMemoryIsTheHostsAndBeginsWithZeros) {
  const StatusOr<Buffer> buffer = device->allocateVisible(64);
  ASSERT_TRUE(buffer.ok());
  const auto *bytes = static_cast<const char *>(buffer->data());
  EXPECT_EQ(std::count(bytes, bytes + 64, 0), 64);
}

TEST_F(CudaDeviceTest, AddressesThatKernelsReachAreFine) {
  EXPECT_TRUE(device->checkAddress(nullptr, nullptr).ok());
  auto buffer = device->allocate(100, nullptr);
  EXPECT_TRUE(device->checkAddress(buffer->data(), nullptr).ok());
  EXPECT_TRUE(device->checkAddress(static_cast<char *>(buffer->data()) + 99, nullptr).ok());
  char memory[3] = {};
  fake.pointers = {{memory, {CU_MEMORYTYPE_DEVICE, 0}},
                   {memory + 1, {CU_MEMORYTYPE_HOST, 0}},
                   {memory + 2, {CU_MEMORYTYPE_HOST, -1, true}}}; // managed, at present the host's
  for (const char &place : memory)
    EXPECT_TRUE(device->checkAddress(&place, nullptr).ok());
}

TEST_F(CudaDeviceTest, OtherAddressesAreUserErrorsThatSayWhatWasFound) {
  char memory[3] = {};
  fake.pointers = {{memory, {CU_MEMORYTYPE_DEVICE, 1}}, {memory + 1, {CU_MEMORYTYPE_HOST, 0, false, false}}};
  const char *found[] = {"memory of device 1", "host memory that is not mapped", "found host memory"};
  for (int i = 0; i < 3; ++i) {
    const Status status = device->checkAddress(memory + i, nullptr);
    EXPECT_EQ(status.kind(), StatusKind::user);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("device cuda:0"), HasSubstr(found[i])));
  }
}

TEST(CudaDevice, SomeReachAllOfTheHostsMemory) {
  FakeDriver fake;
  fake.pageableMemory = 1;
  auto device = *openFake(fake);
  char memory = 0;
  EXPECT_TRUE(device->checkAddress(&memory, nullptr).ok());
  fake.pointers = {{&memory, {CU_MEMORYTYPE_DEVICE, 1}}};
  EXPECT_FALSE(device->checkAddress(&memory, nullptr).ok());
}

TEST_F(CudaDeviceTest, CheckingAnAddressIsAllowedInACapture) {
  fake.captured = reinterpret_cast<CUstream>(3);
  char memory[2] = {};
  fake.pointers = {{memory + 1, {CU_MEMORYTYPE_DEVICE, 1}}};
  EXPECT_EQ(device->checkAddress(memory, streamNumber(4)).kind(), StatusKind::user);
  EXPECT_EQ(device->checkAddress(memory, nullptr).kind(), StatusKind::user);
  EXPECT_EQ(device->checkAddress(memory + 1, streamNumber(3)).kind(), StatusKind::user);
  fake.captured.reset();
}

TEST_F(CudaDeviceTest, TheDriverDoesNotKnowMemoryThatACaptureAllocates) {
  fake.captured = reinterpret_cast<CUstream>(3);
  {
    const auto buffer = device->allocate(100, streamNumber(3));
    ASSERT_TRUE(buffer.ok());
    EXPECT_TRUE(device->checkAddress(buffer->data(), streamNumber(3)).ok());
    EXPECT_FALSE(device->checkAddress(buffer->data(), streamNumber(4)).ok());
  }
  fake.captured.reset();
}

TEST_F(CudaDeviceTest, TimesWithEventsAroundTheWork) {
  std::vector<std::string> before;
  auto milliseconds = device->time(streamNumber(3), [&] {
    before = fake.calls();
    fake.forgetCalls();
    return Status();
  });
  EXPECT_EQ(*milliseconds, 1.5);
  EXPECT_EQ(before.back(), "cuEventRecord");
  EXPECT_THAT(fake.calls(), ::testing::Contains("cuEventSynchronize"));
}

TEST_F(CudaDeviceTest, TimingWorkThatFailsReportsIt) {
  EXPECT_EQ(device->time(nullptr, [] { return userError("no"); }).status().message(), "no");
  fake.fail("cuEventElapsedTime", CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_FALSE(device->time(nullptr, [] { return Status(); }).ok());
}

TEST_F(CudaDeviceTest, TheCallersContextIsUsedAndComesBack) {
  char other;
  FakeDriver::setCurrent(reinterpret_cast<CUcontext>(&other));
  ASSERT_TRUE(device->allocate(10, nullptr).ok());
  EXPECT_EQ(FakeDriver::current(), reinterpret_cast<CUcontext>(&other));
  FakeDriver::setCurrent(nullptr);
}

/// A kernel without parameters, as the compiler leaves it.
Artifact ptxArtifact() {
  Artifact artifact;
  artifact.kernel = "nop";
  artifact.threads = 32;
  artifact.assembly = ".visible .entry nop() { ret; }";
  return artifact;
}

TEST_F(CudaDeviceTest, TheCacheKeepsTheCubin) {
  test::TemporaryFolder folder;
  Environment environment;
  environment.cacheDir = folder.path();
  const KernelSource source = {[] { return StatusOr<std::string>("body"); },
                               [] { return StatusOr<Artifact>(ptxArtifact()); }};
  const KernelKey key = {"nop", "", ""};
  for (int64_t fromDisk : {0, 1}) {
    fake.assembled.clear();
    Runtime runtime(*openFake(fake), environment);
    auto kernel = runtime.kernel(key, source);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    EXPECT_EQ((*kernel)->artifact().binary, fakeCubin(ptxArtifact().assembly + '\0'));
    EXPECT_EQ(runtime.counters().diskHits, fromDisk);
    EXPECT_EQ(fake.assembled.empty(), fromDisk == 1);
  }
  fake.version = 13010; // another driver's assembler writes other code
  Runtime runtime(*openFake(fake), environment);
  ASSERT_TRUE(runtime.kernel(key, source).ok());
  EXPECT_EQ(runtime.counters().diskHits, 0);
}

} // namespace
} // namespace tilewright
