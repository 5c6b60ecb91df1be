#include "compiler/dump.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"

#include "compiler/dsl/build.h"
#include "compiler/pipeline.h"

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::string contents(const std::filesystem::path &path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A folder of this test's own, with TILEWRIGHT_DUMP_DIR set to it.
class DumpTest : public ::testing::Test {
protected:
  void SetUp() override {
    const auto *test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) / test->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    setenv("TILEWRIGHT_DUMP_DIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("TILEWRIGHT_DUMP");
    unsetenv("TILEWRIGHT_DUMP_DIR");
  }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(folder_))
      names.push_back(entry.path().filename().string());
    return names;
  }

  /// What the names of one kernel's files begin with.
  std::string stemOf(const std::string &kernel) const {
    for (const std::string &file : files())
      if (file.rfind(kernel + "-", 0) == 0) return file.substr(0, file.find('.'));
    return {};
  }

  std::filesystem::path folder_;
};

Kernel twice() {
  return defineKernel("twice", "", [](KernelBuilder &k) {
    View x = k.input("x", ElementType::f32, 1), y = k.output("y", ElementType::f32, 1);
    Range i = k.blockColumns(x.dim(0), 64);
    k.store(y, i, x[i] * 2);
  });
}

/// As a runtime compiles that is opened now.
StatusOr<Artifact> compiled(const Kernel &kernel) {
  return compile(kernel, hostTarget(), {}, *readEnvironment());
}

TEST_F(DumpTest, WritesTheStagesThatAreAskedFor) {
  setenv("TILEWRIGHT_DUMP", "tile,lowered,llvm,assembly", 1);
  ASSERT_TRUE(compiled(twice()).ok());
  const std::string stem = stemOf("twice");
  EXPECT_THAT(files(),
              UnorderedElementsAre(stem + ".tile.mlir", stem + ".lowered.mlir", stem + ".ll", stem + ".s"));
  EXPECT_THAT(contents(folder_ / (stem + ".tile.mlir")), HasSubstr("tile.load"));
  EXPECT_THAT(contents(folder_ / (stem + ".ll")), HasSubstr("define void @twice"));
  EXPECT_THAT(contents(folder_ / (stem + ".s")), HasSubstr("twice:"));
}

TEST_F(DumpTest, OfEachTargetAndOfAllOptions) {
  setenv("TILEWRIGHT_DUMP", "assembly", 1);
  CompileOptions options;
  ASSERT_TRUE(compile(twice(), *parseTarget("sm_80"), options, *readEnvironment()).ok());
  ASSERT_TRUE(compile(twice(), *parseTarget("sm_90a"), options, *readEnvironment()).ok());
  options.schedule.warps = 4;
  ASSERT_TRUE(compile(twice(), *parseTarget("sm_80"), options, *readEnvironment()).ok());
  EXPECT_EQ(files().size(), 3u);
}

TEST_F(DumpTest, WritesNothingUnasked) {
  ASSERT_TRUE(compiled(twice()).ok());
  EXPECT_THAT(files(), UnorderedElementsAre());
}

/// Who opened the runtime asked for none; what a variable holds later does not matter.
TEST_F(DumpTest, TheEnvironmentOfTheProcessIsNotRead) {
  setenv("TILEWRIGHT_DUMP", "tile", 1);
  ASSERT_TRUE(compile(twice(), hostTarget(), {}).ok());
  EXPECT_THAT(files(), UnorderedElementsAre());
}

TEST_F(DumpTest, AFolderThatIsNotThereFailsNothing) {
  setenv("TILEWRIGHT_DUMP", "tile", 1);
  setenv("TILEWRIGHT_DUMP_DIR", (folder_ / "missing").c_str(), 1);
  EXPECT_TRUE(compiled(twice()).ok());
}

/// Output of a command, stderr included.
std::string outputOf(const std::string &command) {
  std::string text;
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  while (std::size_t count = fread(buffer, 1, sizeof buffer, pipe))
    text.append(buffer, count);
  pclose(pipe);
  return text;
}

/// What a compile error says that leaves a reproducer, and what tile-opt says when it runs it.
void expectReproduced(const Status &status, const std::string &pass, const std::string &message,
                      const std::string &file) {
  EXPECT_EQ(status.kind(), StatusKind::compile);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("pass '" + pass + "' failed: "), HasSubstr(message),
                                      HasSubstr("tile-opt --run-reproducer " + file)));
  EXPECT_THAT(outputOf("tools/tile-opt --run-reproducer " + file),
              AllOf(HasSubstr("error:"), HasSubstr(message)));
}

TEST_F(DumpTest, AFailingPassLeavesAReproducer) {
  // Long tiles, which a target's lowering refuses when stream-rows has not run.
  Kernel kernel = defineKernel("rows", "", [](KernelBuilder &k) {
    View x = k.input("x", ElementType::f32, 2), y = k.output("y", ElementType::f32, 2);
    Range rows = k.blockRows(x.dim(0), 8), columns = k.whole(x.dim(1));
    k.store(y, rows, columns, exp(x.at(rows, columns)));
  });
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = buildKernel(kernel, context);
  ASSERT_TRUE(module.ok()) << module.status().message();
  Dump dump(*readEnvironment(), "rows", "0123456789");
  Status status = dump.runPasses(
      **module, [](mlir::OpPassManager &passes) { addCpuPasses(passes, hostTarget(), CompileOptions()); });
  expectReproduced(status, "lower-to-vector", "long tile", folder_ / "rows-01234567.lower-to-vector.mlir");
}

/// Its long tiles are of two widths, which stream-rows refuses.
Kernel twoWidths() {
  return defineKernel("widths", "", [](KernelBuilder &k) {
    View x = k.input("x", ElementType::f32, 2), y = k.output("y", ElementType::f32, 2);
    Range rows = k.blockRows(x.dim(0), 8);
    k.store(y, rows, k.whole(y.dim(1)), x.at(rows, k.whole(x.dim(1))) + x.at(rows, k.whole(x.dim(0))));
  });
}

TEST_F(DumpTest, NoFileIsWrittenThatNobodyAskedFor) {
  unsetenv("TILEWRIGHT_DUMP_DIR");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const Status status = compiled(twoWidths()).status();
  std::filesystem::current_path(before);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("pass 'stream-rows' failed"), HasSubstr("set TILEWRIGHT_DUMP_DIR")));
  EXPECT_TRUE(files().empty());
}

TEST_F(DumpTest, APassOfAFunctionLeavesAReproducerToo) {
  const Kernel kernel = twoWidths();
  const Status status = compiled(kernel).status();
  expectReproduced(status, "stream-rows", "long tiles of one width",
                   folder_ / (stemOf("widths") + ".stream-rows.mlir"));
}

TEST(Pipeline, TileOptRunsEveryPassOfIt) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::PassManager passes(&context);
  addTilePasses(passes, hostTarget(), CompileOptions());
  addCpuPasses(passes, hostTarget(), CompileOptions());
  std::string pipeline;
  llvm::raw_string_ostream stream(pipeline);
  passes.printAsTextualPipeline(stream);
  EXPECT_THAT(outputOf("echo | tools/tile-opt --pass-pipeline='" + pipeline + "'"),
              AllOf(HasSubstr("module"), ::testing::Not(HasSubstr("error"))));
}

} // namespace
} // namespace tilewright
