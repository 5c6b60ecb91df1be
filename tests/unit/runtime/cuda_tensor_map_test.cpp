#include <algorithm>
#include <climits>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cuda/cuda_device.h"
#include "tests/support/fake_driver.h"

namespace tilewright {
namespace {

using namespace cuda;
using test::fakeCubin;
using test::FakeDriver;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

alignas(64) char memory[4096];

/// product(a: bf16 matrix, alpha, c: f32 matrix), persistent, with a map of c and one of a; a program for 4x8
/// elements of a.
Artifact productArtifact() {
  Artifact artifact;
  artifact.kernel = "product";
  artifact.parameters = {{Parameter::Kind::view, "a", ElementType::bf16, 2, false},
                         {Parameter::Kind::float32, "alpha", ElementType::f32, 0, false},
                         {Parameter::Kind::view, "c", ElementType::f32, 2, true}};
  artifact.grid = {{0, 0, 4}, {0, 1, 8}};
  artifact.threads = 384;
  artifact.sharedBytes = 232448;
  artifact.tensorMaps = {{2, 64, 32}, {0, 128, 64}};
  artifact.persistent = true;
  artifact.binary = fakeCubin("product");
  return artifact;
}

std::vector<KernelArgument> productArguments(int64_t rows, int64_t columns, int64_t stride) {
  TensorRef a = TensorRef::matrix(memory, ElementType::bf16, rows, columns);
  a.rowStride = stride;
  return {a, 2.0f, TensorRef::matrix(memory + 1024, ElementType::f32, 3, 20)};
}

class CudaTensorMapTest : public ::testing::Test {
protected:
  CudaTensorMapTest()
      : device(*CudaDevice::open(fake.table(), 0, [](const std::string &) { return std::optional<int>(); })) {
    fake.parameterBytes = {8, 8, 8, 8, 4, 8, 8, 8, 8, 128, 128};
    kernel = *device->load(productArtifact());
    fake.forgetCalls();
  }

  Status launch(const std::vector<KernelArgument> &arguments) {
    return device->launch(*kernel, arguments, nullptr);
  }
  std::vector<uint64_t> map(int launch, int parameter) const {
    const CUtensorMap map = fake.launches().at(launch).parameter<CUtensorMap>(parameter);
    return {map.opaque, map.opaque + 7};
  }
  int encodings() const {
    const std::vector<std::string> calls = fake.calls();
    return static_cast<int>(std::count(calls.begin(), calls.end(), "cuTensorMapEncodeTiled"));
  }
  Status statusOfLoad(const Artifact &artifact) { return device->load(artifact).status(); }

  FakeDriver fake;
  std::unique_ptr<Device> device;
  std::unique_ptr<LoadedKernel> kernel;
};

uint64_t address(const void *data) { return reinterpret_cast<uintptr_t>(data); }

TEST_F(CudaTensorMapTest, MapsFollowTheParametersInTheArtifactsOrder) {
  ASSERT_TRUE(launch(productArguments(9, 20, 24)).ok());
  EXPECT_EQ(fake.launches()[0].parameter<float>(4), 2.0f);
  EXPECT_EQ(fake.launches()[0].parameter<int64_t>(8), 20);
  // Address, columns, rows, bytes from row to row, columns and rows of a box, type.
  EXPECT_THAT(map(0, 9), ElementsAre(address(memory + 1024), 20, 3, 80, 32, 64, 7));
  EXPECT_THAT(map(0, 10), ElementsAre(address(memory), 20, 9, 48, 64, 128, 9));
}

TEST_F(CudaTensorMapTest, RoundsToTf32WhereTheArtifactSaysSo) {
  Artifact artifact = productArtifact();
  artifact.tensorMaps[0].roundsToTf32 = true;
  kernel = *device->load(artifact);
  ASSERT_TRUE(launch(productArguments(9, 20, 24)).ok());
  EXPECT_EQ(map(0, 9)[6], uint64_t(CU_TENSOR_MAP_DATA_TYPE_TFLOAT32));
}

TEST_F(CudaTensorMapTest, WarpsCanTradeRegistersInWholeProgramsOnly) {
  Artifact artifact = productArtifact();
  artifact.binary.clear();
  artifact.assembly = ".version 8.3";
  ASSERT_TRUE(device->assemble(artifact).ok());
  EXPECT_EQ(artifact.binary, "");
  EXPECT_TRUE(device->load(artifact).ok());
  EXPECT_THAT(fake.calls(), ::testing::Not(::testing::Contains("cuLinkCreate")));
}

TEST_F(CudaTensorMapTest, ClustersTakeNeighboursAndWholeNumbersOfMultiprocessors) {
  Artifact artifact = productArtifact();
  artifact.clusterCtas = 2;
  kernel = *device->load(artifact);
  ASSERT_TRUE(launch(productArguments(9, 20, 24)).ok()); // 3 rows of 3 programs, the last of each beside none
  ASSERT_EQ(fake.launches().back().attributes.size(), 1u);
  EXPECT_EQ(fake.launches().back().attributes[0].value.clusterDim.x, 2u);
  EXPECT_EQ(fake.launches().back().config.gridDimX, std::min(12, device->info().units / 2 * 2));
}

TEST_F(CudaTensorMapTest, MapsAreKeptForTheTensorsTheyAreOf) {
  for (int round = 0; round < 3; ++round)
    for (int64_t rows : {9, 10})
      for (int64_t stride : {24, 32}) {
        ASSERT_TRUE(launch(productArguments(rows, 20, stride)).ok());
        EXPECT_THAT(map(fake.launches().size() - 1, 10),
                    ElementsAre(address(memory), 20, rows, 2 * stride, 64, 128, 9));
      }
  EXPECT_EQ(encodings(), 5); // one of c
  auto elsewhere = productArguments(9, 20, 24);
  std::get<TensorRef>(elsewhere[0]).data = memory + 16;
  ASSERT_TRUE(launch(elsewhere).ok());
  EXPECT_EQ(map(fake.launches().size() - 1, 10)[0], address(memory + 16));
}

TEST_F(CudaTensorMapTest, ManyTensorsAreMoreThanAreKept) {
  for (int round = 0; round < 2; ++round)
    for (int64_t rows = 1; rows < 300; ++rows) {
      ASSERT_TRUE(launch(productArguments(rows, 16, 16)).ok());
      EXPECT_EQ(map(fake.launches().size() - 1, 10)[2], uint64_t(rows));
    }
}

TEST_F(CudaTensorMapTest, TheStrideOfOneRowMeansNothing) {
  ASSERT_TRUE(launch(productArguments(1, 20, 3)).ok());
  EXPECT_THAT(map(0, 10), ElementsAre(address(memory), 20, 1, 48, 64, 128, 9));
}

TEST_F(CudaTensorMapTest, AnEmptyTensorHasAMapAllTheSame) {
  auto arguments = productArguments(9, 20, 24);
  arguments[2] = TensorRef::matrix(nullptr, ElementType::f32, 5, 0);
  ASSERT_TRUE(launch(arguments).ok());
  EXPECT_EQ(map(0, 9)[1], 1u);
  EXPECT_EQ(map(0, 9)[2], 1u);
}

TEST_F(CudaTensorMapTest, TensorsThatTmaCannotReachAreRefusedByName) {
  auto arguments = productArguments(9, 20, 24);
  std::get<TensorRef>(arguments[0]).data = memory + 8;
  Status status = launch(arguments);
  EXPECT_EQ(status.kind(), StatusKind::user);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("kernel 'product', parameter 'a'"),
                                      HasSubstr("aligned to 16 bytes"), HasSubstr("8 bytes beyond")));
  EXPECT_THAT(launch(productArguments(9, 20, 20)).message(),
              AllOf(HasSubstr("'a'"), HasSubstr("a multiple of 16 bytes apart"), HasSubstr("40 bytes")));
  EXPECT_THAT(launch(productArguments(int64_t(INT_MAX) + 1, 8, 8)).message(),
              AllOf(HasSubstr("'a'"), HasSubstr("below 2^31"), HasSubstr("2147483648x8")));
  EXPECT_THAT(launch(productArguments(2, 8, int64_t(1) << 39)).message(), HasSubstr("2^40"));
  EXPECT_TRUE(fake.launches().empty());
}

TEST_F(CudaTensorMapTest, WhatTheDriverRefusesIsNotKept) {
  fake.fail("cuTensorMapEncodeTiled", CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(launch(productArguments(9, 20, 24)).message(), HasSubstr("cuTensorMapEncodeTiled failed"));
  fake.fail("cuTensorMapEncodeTiled", CUDA_SUCCESS);
  ASSERT_TRUE(launch(productArguments(9, 20, 24)).ok());
  EXPECT_EQ(map(0, 10)[2], 9u);
}

TEST_F(CudaTensorMapTest, APersistentKernelHasNoMoreCtasThanMultiprocessors) {
  ASSERT_TRUE(launch(productArguments(9, 20, 24)).ok());
  ASSERT_TRUE(launch(productArguments(400, 800, 800)).ok());
  ASSERT_TRUE(launch(productArguments(8, 8 * int64_t(70000), 8 * int64_t(70000))).ok());
  std::vector<std::vector<unsigned>> grids;
  for (const auto &launch : fake.launches())
    grids.push_back({launch.config.gridDimX, launch.config.gridDimY, launch.config.gridDimZ});
  EXPECT_THAT(grids, ElementsAre(ElementsAre(9, 1, 1), ElementsAre(132, 1, 1), ElementsAre(132, 1, 1)));
  ASSERT_TRUE(launch(productArguments(0, 20, 24)).ok());
  EXPECT_EQ(fake.launches().size(), 3u);
}

// Where an early start gains little, CTAs would begin out of their order.
TEST_F(CudaTensorMapTest, OfProductsThatWaitThemselvesThoseOfSmallMatricesStartEarly) {
  Artifact artifact = productArtifact();
  artifact.startsEarly = true;
  kernel = *device->load(artifact);
  ASSERT_TRUE(launch(productArguments(9, 20, 24)).ok());
  ASSERT_EQ(fake.launches().back().attributes.size(), 1u);
  EXPECT_EQ(fake.launches().back().attributes[0].id, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  ASSERT_TRUE(launch(productArguments(int64_t(1) << 20, 1024, 1024)).ok());
  EXPECT_TRUE(fake.launches().back().attributes.empty());
}

// The ranks of clusters suppose an empty GPU.
TEST_F(CudaTensorMapTest, ProductsOfClustersStartEarlyWhereMatricesAreSmaller) {
  const auto isEarly = [&](int clusterCtas) {
    Artifact artifact = productArtifact();
    artifact.startsEarly = true;
    artifact.clusterCtas = clusterCtas;
    kernel = *device->load(artifact);
    EXPECT_TRUE(launch(productArguments(int64_t(1) << 18, 1024, 1024)).ok());
    const auto attributes = fake.launches().back().attributes;
    return std::any_of(attributes.begin(), attributes.end(), [](const auto &attribute) {
      return attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    });
  };
  EXPECT_TRUE(isEarly(1));
  EXPECT_FALSE(isEarly(2));
}

TEST_F(CudaTensorMapTest, MapsThatCannotBeAreRefused) {
  for (TensorMap wrong :
       {TensorMap{3, 128, 64}, {-1, 128, 64}, {1, 128, 64}, {0, 128, 32}, {0, 0, 64}, {0, 257, 64}}) {
    Artifact artifact = productArtifact();
    artifact.tensorMaps.push_back(wrong);
    EXPECT_EQ(statusOfLoad(artifact).kind(), StatusKind::internal);
  }
  Artifact artifact = productArtifact();
  artifact.tensorMaps.resize(31, artifact.tensorMaps[0]);
  EXPECT_TRUE(statusOfLoad(artifact).ok());
  artifact.tensorMaps.resize(32, artifact.tensorMaps[0]);
  EXPECT_THAT(statusOfLoad(artifact).message(), HasSubstr("at most 512 8-byte parameters"));
}

TEST_F(CudaTensorMapTest, ADriverWithoutTmaIsTooOld) {
  Driver old = fake.table();
  old.cuTensorMapEncodeTiled = nullptr;
  auto second = *CudaDevice::open(old, 0, [](const std::string &) { return std::optional<int>(); });
  EXPECT_THAT(second->load(productArtifact()).status().message(), HasSubstr("CUDA 12.1"));
}

TEST_F(CudaTensorMapTest, AnyThreadMayLaunch) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i)
        EXPECT_TRUE(launch(productArguments(1 + (i + t) % 90, 16, 16)).ok());
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const auto &launch : fake.launches())
    EXPECT_EQ(launch.parameter<CUtensorMap>(10).opaque[2], uint64_t(launch.parameter<int64_t>(1)));
}

} // namespace
} // namespace tilewright
