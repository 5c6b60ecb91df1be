// PTX of every kernel there is, assembled where there is an assembler.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "kernels/catalog.h"
#include "tests/support/ptx_assembler.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

constexpr ElementType f32 = ElementType::f32, bf16 = ElementType::bf16, f16 = ElementType::f16;

struct Case {
  std::string kernel;
  ElementType element;
  std::string arch;
  bool aligned = false; ///< matrices, so that Hopper's own kernels are taken
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
  for (const char *product : {"lce_forward", "lce_forward_loss", "lce_forward_blocks", "lce_dx", "lce_dw",
                              "lce_dw_add", "matmul_bias_gelu"})
    cases.push_back({product, bf16, "sm_90a", true});
  return cases;
}

class EveryKernel : public ::testing::TestWithParam<Case> {};

TEST_P(EveryKernel, AssemblesWithoutSpills) {
  const Case &c = GetParam();
  auto entry = findKernel(c.kernel);
  ASSERT_TRUE(entry.ok());
  CompileOptions options = entry->options(TargetKind::nvptx);
  options.alignedMatrices = c.aligned;
  auto artifact = compile(entry->make(c.element), *parseTarget(c.arch), options);
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_EQ(artifact->threads % 32, 0);
  EXPECT_THAT(artifact->assembly, HasSubstr(".target " + c.arch));
  if (c.aligned) {
    EXPECT_THAT(artifact->assembly, HasSubstr("wgmma.mma_async"));
  }
  RecordProperty("milliseconds", static_cast<int>(artifact->compileMilliseconds));

  const std::string assembler = test::findPtxAssembler();
  if (assembler.empty()) GTEST_SKIP() << "no ptxas on PATH or below CUDA_HOME";
  EXPECT_EQ(test::faultsOfAssembled(assembler, artifact->assembly, c.arch), "");
}

INSTANTIATE_TEST_SUITE_P(Catalog, EveryKernel, ::testing::ValuesIn(everyKernel()), [](const auto &info) {
  return info.param.kernel + "_" + elementName(info.param.element) + "_" + info.param.arch +
         (info.param.aligned ? "_aligned" : "");
});

} // namespace
} // namespace tilewright
