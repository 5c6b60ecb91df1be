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
