// PTX of every kernel there is, assembled where there is an assembler.

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "kernels/catalog.h"
#include "tests/support/temporary_folder.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr ElementType f32 = ElementType::f32, bf16 = ElementType::bf16, f16 = ElementType::f16;

/// ptxas on PATH or below CUDA_HOME; empty where there is none.
std::string findAssembler() {
  const char *home = std::getenv("CUDA_HOME");
  for (const std::string &command :
       {std::string("ptxas"), std::string(home ? home : "/usr/local/cuda") + "/bin/ptxas"})
    if (std::system((command + " --version >/dev/null 2>&1").c_str()) == 0) return command;
  return "";
}

struct Assembled {
  bool ok = false;
  std::string words; ///< what ptxas said, registers and spills included
};

Assembled assemble(const std::string &assembler, const std::string &ptx, const std::string &arch) {
  test::TemporaryFolder folder;
  const std::string base = folder / "kernel";
  test::writeWholeFile(base + ".ptx", ptx);
  const std::string command =
      assembler + " -v -arch=" + arch + " " + base + ".ptx -o " + base + ".cubin >" + base + ".log 2>&1";
  const bool ok = std::system(command.c_str()) == 0;
  return {ok, test::readWholeFile(base + ".log")};
}

struct Case {
  std::string kernel;
  ElementType element;
  std::string arch;
};

void PrintTo(const Case &c, std::ostream *out) {
  *out << c.kernel << " " << elementName(c.element) << " " << c.arch;
}

std::vector<Case> everyKernel() {
  std::vector<Case> cases;
  for (const CatalogEntry &entry : kernelCatalog())
    for (ElementType element : {f32, bf16, f16})
      for (const char *arch : {"sm_80", "sm_90", "sm_90a"})
        cases.push_back({entry.name, element, arch});
  return cases;
}

class EveryKernel : public ::testing::TestWithParam<Case> {};

TEST_P(EveryKernel, AssemblesWithoutSpills) {
  const Case &c = GetParam();
  auto kernel = findKernel(c.kernel, c.element);
  ASSERT_TRUE(kernel.ok());
  auto artifact = compile(*kernel, *parseTarget(c.arch), {});
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_EQ(artifact->threads % 32, 0);
  EXPECT_THAT(artifact->assembly, HasSubstr(".target " + c.arch));
  RecordProperty("milliseconds", static_cast<int>(artifact->compileMilliseconds));

  const std::string assembler = findAssembler();
  if (assembler.empty()) GTEST_SKIP() << "no ptxas on PATH or below CUDA_HOME";
  const Assembled result = assemble(assembler, artifact->assembly, c.arch);
  ASSERT_TRUE(result.ok) << result.words;
  EXPECT_THAT(result.words, HasSubstr("0 bytes spill stores, 0 bytes spill loads"));
  EXPECT_THAT(result.words, Not(HasSubstr("warning")));
}

INSTANTIATE_TEST_SUITE_P(Catalog, EveryKernel, ::testing::ValuesIn(everyKernel()), [](const auto &info) {
  return info.param.kernel + "_" + elementName(info.param.element) + "_" + info.param.arch;
});

} // namespace
} // namespace tilewright
