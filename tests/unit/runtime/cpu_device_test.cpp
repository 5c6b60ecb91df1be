#include "runtime/cpu/cpu_device.h"

#include <atomic>
#include <cmath>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_device.h"
#include "tests/support/tiny_object.h"
#include "tools/bench/allocation_count.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

// out[p0 + 100 p1 + 10000 p2] = n + exp(alpha); slots: out = {pointer, size}, n, alpha.
const char *kMarkIr = R"(
declare float @expf(float)
define void @mark(ptr %slots, ptr %id, ptr %scratch) {
  %out = load ptr, ptr %slots
  %nSlot = getelementptr i64, ptr %slots, i64 2
  %n = load i64, ptr %nSlot
  %alphaSlot = getelementptr i64, ptr %slots, i64 3
  %alpha = load float, ptr %alphaSlot
  %id1 = getelementptr i64, ptr %id, i64 1
  %id2 = getelementptr i64, ptr %id, i64 2
  %p0 = load i64, ptr %id
  %p1 = load i64, ptr %id1
  %p2 = load i64, ptr %id2
  %a = mul i64 %p1, 100
  %b = mul i64 %p2, 10000
  %c = add i64 %a, %b
  %at = add i64 %c, %p0
  %where = getelementptr float, ptr %out, i64 %at
  %e = call float @expf(float %alpha)
  %nf = sitofp i64 %n to float
  %value = fadd float %nf, %e
  store float %value, ptr %where
  ret void
})";

// Fills its scratch with its program's number, then adds up what it finds there: out[p0] = scratch words *
// p0.
const char *kScratchIr = R"(
define void @scratch(ptr %slots, ptr %id, ptr %scratch) {
entry:
  %out = load ptr, ptr %slots
  %p = load i64, ptr %id
  %asInt = ptrtoint ptr %scratch to i64
  %misaligned = and i64 %asInt, 63
  br label %fill
fill:
  %i = phi i64 [0, %entry], [%i1, %fill]
  %w = getelementptr i64, ptr %scratch, i64 %i
  store volatile i64 %p, ptr %w
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, 4096
  br i1 %more, label %fill, label %sum
sum:
  %j = phi i64 [0, %fill], [%j1, %sum]
  %s = phi i64 [%misaligned, %fill], [%s1, %sum]
  %r = getelementptr i64, ptr %scratch, i64 %j
  %v = load volatile i64, ptr %r
  %s1 = add i64 %s, %v
  %j1 = add i64 %j, 1
  %again = icmp ult i64 %j1, 4096
  br i1 %again, label %sum, label %done
done:
  %where = getelementptr i64, ptr %out, i64 %p
  store i64 %s1, ptr %where
  ret void
})";

Artifact markArtifact() {
  Artifact artifact;
  artifact.kernel = "mark";
  artifact.parameters = {{Parameter::Kind::view, "out", ElementType::f32, 1, true},
                         {Parameter::Kind::index, "n", ElementType::f32, 0, false},
                         {Parameter::Kind::float32, "alpha", ElementType::f32, 0, false}};
  artifact.binary = test::objectFromIr(kMarkIr);
  return artifact;
}

Artifact scratchArtifact(int64_t scratchBytes) {
  Artifact artifact;
  artifact.kernel = "scratch";
  artifact.parameters = {{Parameter::Kind::view, "out", ElementType::i64, 1, true}};
  artifact.grid = {{0, 0, 1}};
  artifact.scratchBytes = scratchBytes;
  artifact.binary = test::objectFromIr(kScratchIr);
  return artifact;
}

TEST(CpuDevice, RunsEveryProgramOfTheGrid) {
  for (int threads : {1, 2, 5}) {
    CpuDevice device(threads);
    Artifact artifact = markArtifact();
    artifact.parameters.push_back({Parameter::Kind::index, "a", ElementType::f32, 0, false});
    artifact.parameters.push_back({Parameter::Kind::index, "b", ElementType::f32, 0, false});
    artifact.parameters.push_back({Parameter::Kind::index, "c", ElementType::f32, 0, false});
    artifact.grid = {{3, 0, 1}, {4, 0, 2}, {5, 0, 3}};
    auto kernel = device.load(artifact);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();

    std::vector<float> out(40000, -1.0f);
    auto tensor = TensorRef::vector(out.data(), ElementType::f32, out.size());
    Status launched =
        device.launch(**kernel, {tensor, int64_t(5), 0.5f, int64_t(7), int64_t(9), int64_t(8)}, nullptr);
    ASSERT_TRUE(launched.ok()) << launched.message();
    for (std::size_t at = 0; at < out.size(); ++at) {
      bool inGrid = at % 100 < 7 && at / 100 % 100 < 5 && at / 10000 < 3;
      EXPECT_EQ(out[at], inGrid ? 5 + std::exp(0.5f) : -1.0f) << at;
    }
  }
}

TEST(CpuDevice, EveryProgramHasScratchOfItsOwn) {
  CpuDevice device(4);
  auto kernel = device.load(scratchArtifact(4096 * 8));
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  std::atomic<int> wrong{0};
  auto launchOften = [&] {
    std::vector<int64_t> out(100);
    for (int round = 0; round < 20; ++round) {
      Status launched =
          device.launch(**kernel, {TensorRef::vector(out.data(), ElementType::i64, out.size())}, nullptr);
      for (std::size_t p = 0; p < out.size(); ++p)
        if (!launched.ok() || out[p] != static_cast<int64_t>(4096 * p)) ++wrong;
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back(launchOften);
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(CpuDevice, ScratchThatDoesNotFitIsAnError) {
  CpuDevice device(2);
  auto kernel = device.load(scratchArtifact(int64_t(1) << 60));
  ASSERT_TRUE(kernel.ok());
  std::vector<int64_t> out(2);
  Status launched = device.launch(**kernel, {TensorRef::vector(out.data(), ElementType::i64, 2)}, nullptr);
  EXPECT_EQ(launched.kind(), StatusKind::memory);
  EXPECT_THAT(launched.message(), HasSubstr("not enough memory"));
}

TEST(CpuDevice, AKernelKeepsItsCodeWithoutTheDevice) {
  std::unique_ptr<LoadedKernel> kernel;
  { kernel = *CpuDevice(1).load(markArtifact()); }
  float out = 0;
  Status launched =
      CpuDevice(1).launch(*kernel, {TensorRef::vector(&out, ElementType::f32, 1), int64_t(1), 0.0f}, nullptr);
  EXPECT_TRUE(launched.ok());
  EXPECT_EQ(out, 2.0f);
}

// The first launch may fill stocks that threads keep.
TEST(CpuDevice, LaunchesAfterTheFirstLeaveTheHeapAlone) {
  for (int threads : {1, 4}) {
    CpuDevice device(threads);
    Artifact artifact = markArtifact();
    artifact.grid = {{1, 0, 1}};
    auto kernel = device.load(artifact);
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    std::vector<float> out(64);
    const std::vector<KernelArgument> arguments = {
        TensorRef::vector(out.data(), ElementType::f32, out.size()), int64_t(64), 0.0f};
    bool good = device.launch(**kernel, arguments, nullptr).ok();
    const int64_t before = allocationCount();
    for (int i = 0; i < 100; ++i)
      good &= device.launch(**kernel, arguments, nullptr).ok();
    EXPECT_EQ(allocationCount() - before, 0) << threads << " threads";
    EXPECT_TRUE(good);
  }
}

TEST(CpuDevice, LaunchesWithScratchLeaveTheHeapAlone) {
  CpuDevice device(1);
  auto kernel = device.load(scratchArtifact(4096 * 8));
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  std::vector<int64_t> out(4);
  const std::vector<KernelArgument> arguments = {TensorRef::vector(out.data(), ElementType::i64, out.size())};
  bool good = device.launch(**kernel, arguments, nullptr).ok();
  const int64_t before = allocationCount();
  good &= device.launch(**kernel, arguments, nullptr).ok();
  EXPECT_EQ(allocationCount() - before, 0);
  EXPECT_TRUE(good);
}

TEST(CpuDevice, AKernelOfTooManyParametersIsRefusedAtLoad) {
  Artifact artifact = markArtifact();
  while (artifact.parameters.size() < 511)
    artifact.parameters.push_back({Parameter::Kind::index, "n", ElementType::f32, 0, false});
  EXPECT_TRUE(CpuDevice(1).load(artifact).ok()); // 512 words: the tensor has two
  artifact.parameters.push_back({Parameter::Kind::index, "n", ElementType::f32, 0, false});
  const Status status = CpuDevice(1).load(artifact).status();
  EXPECT_EQ(status.kind(), StatusKind::compile);
  EXPECT_THAT(status.message(), HasSubstr("expected at most 512 8-byte parameters, found 513"));
}

TEST(CpuDevice, ArgumentsAreChecked) {
  CpuDevice device(1);
  auto kernel = device.load(markArtifact());
  EXPECT_EQ(device.launch(**kernel, {}, nullptr).kind(), StatusKind::user);
}

TEST(CpuDevice, KernelsOfAnotherDeviceAreRefused) {
  test::FakeDevice other;
  auto kernel = other.load(markArtifact());
  Status launched = CpuDevice(1).launch(**kernel, {}, nullptr);
  EXPECT_EQ(launched.kind(), StatusKind::user);
  EXPECT_THAT(launched.message(), HasSubstr("another device"));
}

TEST(CpuDevice, MemoryIsAlignedFilledAndCopied) {
  CpuDevice device(1);
  for (std::size_t bytes : {std::size_t(0), std::size_t(1), std::size_t(100), std::size_t(5) << 20}) {
    auto buffer = device.allocate(bytes, nullptr);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
    EXPECT_EQ(buffer->bytes(), bytes);
    std::string ones(bytes, '\1'), back(bytes, '\0');
    EXPECT_TRUE(device.fill(buffer->data(), 1, bytes, nullptr).ok());
    EXPECT_TRUE(device.copyToHost(back.data(), buffer->data(), bytes, nullptr).ok());
    EXPECT_EQ(back, ones);
  }
}

TEST(CpuDevice, TooMuchMemoryIsAnError) {
  auto buffer = CpuDevice(1).allocate(std::size_t(1) << 62, nullptr);
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.status().kind(), StatusKind::memory);
  EXPECT_FALSE(CpuDevice(1).allocate(SIZE_MAX, nullptr).ok());
}

TEST(CpuDevice, SaysWhatItIs) {
  CpuDevice two(2), three(3);
  EXPECT_THAT(two.info().name, HasSubstr("2 threads"));
  EXPECT_EQ(two.info().units, 2);
  EXPECT_GT(two.info().memoryBytes, 1 << 20);
  EXPECT_EQ(two.info().fingerprint, CpuDevice(2).info().fingerprint);
  EXPECT_NE(two.info().fingerprint, three.info().fingerprint);
  EXPECT_EQ(two.target().str(), hostTarget().str());
}

void expectLoadError(const Artifact &artifact, const std::string &cause) {
  auto kernel = CpuDevice(1).load(artifact);
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.status().kind(), StatusKind::device);
  EXPECT_THAT(kernel.status().message(), HasSubstr("'" + artifact.kernel + "'"));
  EXPECT_THAT(kernel.status().message(), HasSubstr(cause));
}

TEST(CpuDevice, SaysHowLargeItsLastCachesAre) {
  const CpuDevice device(2);
  EXPECT_GE(device.lastCacheBytes(), 2 * device.info().cacheBytes);
  EXPECT_EQ(device.lastCacheBytes(), device.lastCacheBytes());
}

TEST(CpuDevice, ObjectsThatCannotBeLoadedAreErrors) {
  Artifact artifact = markArtifact();
  artifact.kernel = "absent";
  expectLoadError(artifact, "absent");

  artifact.binary = test::objectFromIr("declare void @nobodyHasThis()\n"
                                       "define void @absent(ptr %a, ptr %b, ptr %c) {\n"
                                       "  call void @nobodyHasThis()\n  ret void\n}");
  expectLoadError(artifact, "nobodyHasThis");

  artifact.binary = test::objectFromIr("define void @absent() {\n  ret void\n}", "aarch64-linux-gnu");
  expectLoadError(artifact, "expected a relocatable ELF object for x86_64");

  for (const char *bytes : {"", "\x7f",
                            "\x7f"
                            "ELF",
                            "not an object at all"}) {
    artifact.binary = bytes;
    expectLoadError(artifact, "cannot be loaded");
  }
}

// An address of the object's own and one of the process's in its data, and a call by way of a slot.
TEST(CpuDevice, DataAndAddressesOfFunctionsAreLinked) {
  Artifact artifact = markArtifact();
  artifact.kernel = "addresses";
  artifact.parameters.resize(1);
  artifact.binary = test::objectFromIr(R"(
declare float @expf(float)
declare float @sqrtf(float) nonlazybind
@value = internal global float 4.0
@where = internal global ptr @value
@function = internal global ptr @expf
define void @addresses(ptr %slots, ptr %id, ptr %scratch) {
  %out = load ptr, ptr %slots
  %at = load volatile ptr, ptr @where
  %x = load volatile float, ptr %at
  store volatile float 0.0, ptr @value
  %f = load volatile ptr, ptr @function
  %root = call float @sqrtf(float %x) nonlazybind
  %e = call float %f(float %root)
  store float %e, ptr %out
  ret void
})");
  auto kernel = CpuDevice(1).load(artifact);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  float out = 0;
  ASSERT_TRUE(CpuDevice(1).launch(**kernel, {TensorRef::vector(&out, ElementType::f32, 1)}, nullptr).ok());
  EXPECT_EQ(out, std::exp(2.0f));
}

TEST(CpuDevice, TruncatedObjectsAreErrors) {
  Artifact artifact = markArtifact();
  const std::string whole = artifact.binary;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    artifact.binary = whole.substr(0, length);
    auto kernel = CpuDevice(1).load(artifact);
    EXPECT_FALSE(kernel.ok()) << length << " of " << whole.size() << " bytes";
  }
}

TEST(CpuDevice, LoadingDamagedObjectsDoesNotEndTheProcess) {
  Artifact artifact;
  artifact.kernel = "damaged";
  artifact.binary = test::objectFromIr(R"(
declare float @expf(float)
@table = internal constant [2 x float] [float 1.0, float 2.0]
define void @damaged(ptr %a, ptr %b, ptr %c) nounwind {
  %i = load i64, ptr %b
  %where = getelementptr [2 x float], ptr @table, i64 0, i64 %i
  %v = load float, ptr %where
  %e = call float @expf(float %v)
  store float %e, ptr %a
  ret void
})");
  CpuDevice device(1);
  int refused = 0;
  for (std::size_t bit = 0; bit < 8 * artifact.binary.size(); ++bit) {
    artifact.binary[bit / 8] ^= 1 << bit % 8;
    if (!device.load(artifact).ok()) ++refused;
    artifact.binary[bit / 8] ^= 1 << bit % 8;
  }
  EXPECT_GT(refused, 1000);
  EXPECT_TRUE(device.load(artifact).ok());
}

TEST(CpuDevice, CopiesWithAllItsThreads) {
  CpuDevice device(3);
  for (std::size_t bytes : {std::size_t(0), std::size_t(1), std::size_t(1000003)}) {
    std::vector<unsigned char> source(bytes), destination(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      source[i] = static_cast<unsigned char>(i * 31 + 7);
    ASSERT_TRUE(device.copy(destination.data(), source.data(), bytes, nullptr).ok());
    EXPECT_TRUE(destination == source) << bytes;
  }
}

TEST(CpuDevice, SeesThePeakOfMemory) {
  CpuDevice device(1);
  const StatusOr<int64_t> peak = device.peakBytes(nullptr, [&]() -> Status {
    TW_ASSIGN_OR_RETURN(const Buffer large, device.allocate(64 << 20, nullptr));
    return device.fill(large.data(), 1, large.bytes(), nullptr);
  });
  ASSERT_TRUE(peak.ok());
  if (*peak == 0) GTEST_SKIP() << "/proc does not say how much memory is used";
  EXPECT_GE(*peak, 48 << 20);
  EXPECT_FALSE(device.peakBytes(nullptr, [] { return userError("no"); }).ok());
}

} // namespace
} // namespace tilewright
