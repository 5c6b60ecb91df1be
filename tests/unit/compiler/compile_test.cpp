#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/compile.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

constexpr ElementType f32 = ElementType::f32, bf16 = ElementType::bf16;

Kernel scaled(double factor = 2) {
  return defineKernel("scaled", "", [=](KernelBuilder &k) {
    View x = k.input("x", bf16, 2), y = k.output("y", f32, 2);
    Index n = k.index("n");
    Tile a = k.scalar("a");
    auto [r, c] = k.block(n, x.dim(1), 4, 64);
    k.store(y, r, c, x.at(r, c) * a * factor);
  });
}

TEST(Compile, DescribesTheKernel) {
  auto artifact = compile(scaled(), hostTarget(), {});
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_EQ(artifact->kernel, "scaled");
  EXPECT_EQ(artifact->target, hostTarget().str());
  EXPECT_EQ(artifact->binary.substr(1, 3), "ELF");
  EXPECT_GT(artifact->compileMilliseconds, 0);

  ASSERT_EQ(artifact->parameters.size(), 4u);
  const Parameter &x = artifact->parameters[0], &y = artifact->parameters[1];
  EXPECT_EQ(x.kind, Parameter::Kind::view);
  EXPECT_EQ(x.name, "x");
  EXPECT_EQ(x.element, bf16);
  EXPECT_EQ(x.rank, 2);
  EXPECT_FALSE(x.written);
  EXPECT_EQ(y.element, f32);
  EXPECT_TRUE(y.written);
  EXPECT_EQ(artifact->parameters[2].kind, Parameter::Kind::index);
  EXPECT_EQ(artifact->parameters[3].kind, Parameter::Kind::float32);

  ASSERT_EQ(artifact->grid.size(), 2u);
  EXPECT_EQ(artifact->grid[0].parameter, 2);
  EXPECT_EQ(artifact->grid[0].block, 4);
  EXPECT_EQ(artifact->grid[1].parameter, 0);
  EXPECT_EQ(artifact->grid[1].dim, 1);
  EXPECT_EQ(artifact->grid[1].block, 64);
}

TEST(Compile, EmitsEveryStage) {
  auto text = [](Stage stage) {
    auto text = emit(scaled(), hostTarget(), {}, stage);
    return text.ok() ? *text : text.status().message();
  };
  EXPECT_THAT(text(Stage::tile), HasSubstr("tile.load"));
  EXPECT_THAT(text(Stage::lowered), HasSubstr("func.func @scaled"));
  EXPECT_THAT(text(Stage::llvm), HasSubstr("define void @scaled(ptr"));
  EXPECT_THAT(text(Stage::assembly), HasSubstr("scaled:"));
}

TEST(Compile, FingerprintsFollowTheBody) {
  auto two = fingerprint(scaled(2)), again = fingerprint(scaled(2)), three = fingerprint(scaled(3));
  ASSERT_TRUE(two.ok() && again.ok() && three.ok());
  EXPECT_EQ(two->size(), 64u);
  EXPECT_EQ(*two, *again);
  EXPECT_NE(*two, *three);
}

TEST(Compile, AMistakeInTheKernelIsACompileError) {
  Kernel broken = defineKernel("broken", "", [](KernelBuilder &k) { k.input("x", f32, 1).dim(1); });
  for (Status status : {compile(broken, hostTarget(), {}).status(), fingerprint(broken).status(),
                        emit(broken, hostTarget(), {}, Stage::tile).status()}) {
    EXPECT_EQ(status.kind(), StatusKind::compile);
    EXPECT_THAT(status.message(), HasSubstr("kernel 'broken': dim: "));
  }
}

TEST(Compile, GpusGetPtx) {
  auto artifact = compile(scaled(), *parseTarget("sm_80"), {});
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_THAT(artifact->assembly, HasSubstr(".target sm_80"));
  EXPECT_THAT(artifact->assembly, HasSubstr(".visible .entry scaled("));
  EXPECT_THAT(artifact->assembly, HasSubstr(".maxntid " + std::to_string(artifact->threads) + ", 1, 1"));
  EXPECT_GT(artifact->threads, 0);
  EXPECT_EQ(artifact->scratchBytes, 0);
  EXPECT_TRUE(artifact->binary.empty());
}

/// What a schedule's mistake is called on a target, for a kernel whose grid has two axes; empty where it
/// compiles.
std::string mistake(const char *target, Schedule schedule) {
  CompileOptions options;
  options.schedule = schedule;
  const Status status = compile(scaled(), *parseTarget(target), options).status();
  EXPECT_TRUE(status.ok() || status.kind() == StatusKind::user) << status.message();
  return status.message();
}

TEST(Compile, AScheduleThatCannotBeFollowedIsAUserError) {
  for (int64_t step : {-1, 16, 48, 128})
    EXPECT_THAT(mistake("sm_80", {.contractionStep = step}),
                HasSubstr("kernel 'scaled': contractionStep: expected 0, 32 or 64 on a GPU, found"));
  EXPECT_THAT(mistake("cpu", {.contractionStep = -64}), HasSubstr("contractionStep: expected 0 to 4096"));
  EXPECT_THAT(mistake("sm_80", {.stages = 17}), HasSubstr("stages: expected 0 to 16, found 17"));
  EXPECT_THAT(mistake("sm_80", {.warps = 3}), HasSubstr("warps: expected 0 or a power of two, found 3"));
  EXPECT_THAT(mistake("sm_80", {.warps = 64}), HasSubstr("warps: expected 0 to 32, found 64"));
  EXPECT_THAT(mistake("sm_80", {.rasterRows = -1}), HasSubstr("rasterRows: expected 0 to 65535"));
  EXPECT_THAT(mistake("sm_90a", {.clusterCtas = 3}), HasSubstr("clusterCtas: expected 0 to 2, found 3"));
  EXPECT_THAT(mistake("sm_80", {.clusterCtas = 2}), HasSubstr("clusterCtas: expected 0 or 1 on a target"));
  EXPECT_THAT(mistake("cpu", {.rowBlock = -1}), HasSubstr("rowBlock: expected 0 or more, found -1"));
  EXPECT_THAT(mistake("sm_90a", {.rowPartners = 0}), HasSubstr("rowPartners: expected 1 to 8, found 0"));
  EXPECT_THAT(mistake("sm_90a", {.rowPartners = 2}), HasSubstr("1 in a kernel whose grid has two axes"));
  for (const char *target : {"cpu", "sm_80"})
    EXPECT_THAT(mistake(target, {.rowPartners = 2}),
                HasSubstr("rowPartners: expected 1 on a target without"));
  // What a target has no use for does no harm.
  EXPECT_EQ(mistake("cpu", {.contractionStep = 96, .stages = 3, .warps = 3, .clusterCtas = 2}), "");
  EXPECT_EQ(mistake("sm_80", {.contractionStep = 64, .stages = 3, .warps = 8, .rasterRows = 12}), "");
}

TEST(Compile, SideBySide) {
  std::vector<std::string> binaries(8);
  std::vector<std::thread> threads;
  for (std::string &binary : binaries)
    threads.emplace_back([&binary] {
      auto artifact = compile(scaled(), hostTarget(), {});
      binary = artifact.ok() ? artifact->binary : artifact.status().message();
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &binary : binaries)
    EXPECT_EQ(binary, binaries[0]);
  EXPECT_EQ(binaries[0].substr(1, 3), "ELF");
}

} // namespace
} // namespace tilewright
