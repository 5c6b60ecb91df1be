// How rows of logits are held on chip.

#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "kernels/ce/kernels.h"
#include "tests/support/ptx_assembler.h"

namespace tilewright::ce {
namespace {

constexpr int64_t kSharedBytes = 227 << 10;

RowSpec gradientSpec(ElementType element) {
  return {element, RowSpec::Gradient{element, {Upstream::one, true}}};
}

Schedule scheduleOf(ElementType element, int64_t classes, const char *arch) {
  return scheduleRow(gradientSpec(element), classes, *parseTarget(arch), kSharedBytes).options.schedule;
}

// But for the block of the label and what is left at the end.
TEST(RowSchedule, KeepsWholeRows) {
  for (int64_t classes : {4096, 32000, 50264, 128256, 151936, 256000})
    for (ElementType element : {ElementType::bf16, ElementType::f32}) {
      const Schedule schedule = scheduleOf(element, classes, "sm_90");
      const int64_t bytes = classes * elementBytes(element);
      if (bytes > 8 * (72 << 10)) {
        EXPECT_EQ(schedule.rowBytes, 0) << classes;
        continue;
      }
      EXPECT_LE(schedule.rowBytes, 74 << 10) << classes;
      EXPECT_GE(schedule.rowBytes * schedule.rowPartners, bytes - (16 << 10)) << classes;
    }
}

TEST(RowSchedule, HasClustersWhereTheTargetHas) {
  const ElementType bf16 = ElementType::bf16;
  EXPECT_EQ(scheduleOf(bf16, 128256, "sm_90a").rowPartners, 8);
  EXPECT_EQ(scheduleOf(bf16, 128256, "sm_80").rowPartners, 1);
  EXPECT_EQ(scheduleOf(bf16, 128256, "sm_80").rowBytes, 0);
  EXPECT_GT(scheduleOf(bf16, 32000, "sm_80").rowBytes, 0);
  EXPECT_EQ(scheduleOf(bf16, 128256, "cpu").rowBytes, 0);
}

// What is read once needs no place.
TEST(RowSchedule, LossAloneKeepsNothing) {
  const RowSpec spec{ElementType::bf16, {}};
  EXPECT_EQ(scheduleRow(spec, 128256, *parseTarget("sm_90"), kSharedBytes).options.schedule.rowBytes, 0);
}

TEST(RowSchedule, AssemblesWithoutSpills) {
  const std::string assembler = test::findPtxAssembler();
  for (ElementType element : {ElementType::bf16, ElementType::f16, ElementType::f32})
    for (int64_t classes : {32000, 128256, 256000}) {
      SCOPED_TRACE(std::string(elementName(element)) + " " + std::to_string(classes));
      const RowSpec spec = gradientSpec(element);
      const RowSchedule schedule = scheduleRow(spec, classes, *parseTarget("sm_90"), kSharedBytes);
      const auto artifact = compile(row(spec), *parseTarget("sm_90"), schedule.options);
      ASSERT_TRUE(artifact.ok()) << artifact.status().message();
      EXPECT_EQ(artifact->clusterCtas, schedule.options.schedule.rowPartners);
      EXPECT_GE(artifact->sharedBytes, schedule.options.schedule.rowBytes);
      EXPECT_EQ(artifact->assembly.find("st.async.shared::cluster") != std::string::npos,
                artifact->clusterCtas > 1);
      if (assembler.empty()) continue;
      EXPECT_EQ(test::faultsOfAssembled(assembler, artifact->assembly, "sm_90"), "");
    }
  if (assembler.empty()) GTEST_SKIP() << "no ptxas on PATH or below CUDA_HOME";
}

} // namespace
} // namespace tilewright::ce
