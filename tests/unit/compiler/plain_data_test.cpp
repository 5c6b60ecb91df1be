#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/cpuid_target.h"
#include "compiler/element_type.h"
#include "compiler/options.h"
#include "compiler/target.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

TEST(ElementType, NamesReadBack) {
  for (ElementType element :
       {ElementType::f32, ElementType::bf16, ElementType::f16, ElementType::i32, ElementType::i64}) {
    auto read = parseElementType(elementName(element));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read, element);
  }
}

TEST(ElementType, UnknownNameListsTheChoices) {
  auto read = parseElementType("fp8");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().kind(), StatusKind::user);
  EXPECT_THAT(read.status().message(), HasSubstr("'fp8'"));
  EXPECT_THAT(read.status().message(), HasSubstr("f32, bf16, f16, i32, i64"));
}

TEST(Target, TheHostIsTheSameEveryTime) {
  EXPECT_EQ(hostTarget().str(), hostTarget().str());
  EXPECT_EQ(parseTarget("cpu")->str(), hostTarget().str());
  EXPECT_FALSE(hostTarget().arch.empty());
}

// A library without LLVM asks the processor itself, and calls what it finds as LLVM does.
TEST(Target, TheProcessorSaysWhatLlvmSays) {
  const std::string llvm = "," + hostTarget().features + ",";
  std::stringstream features(cpuidTarget().features);
  int seen = 0;
  for (std::string feature; std::getline(features, feature, ','); ++seen)
    EXPECT_THAT(llvm, HasSubstr("," + feature + ","));
  EXPECT_GT(seen, 30);
}

// Whatever this machine is. Of a processor's features those are told that code may use.
TEST(Target, ProcessorsHaveLlvmsNames) {
  const auto level = parseTarget("x86-64-v3");
  ASSERT_TRUE(level.ok()) << level.status().message();
  EXPECT_EQ(level->arch, "x86-64-v3");
  EXPECT_THAT("," + level->features + ",", HasSubstr(",+avx2,"));
  EXPECT_EQ(level->features.find("avx512"), std::string::npos);
  const auto wide = parseTarget("x86-64-v4"); // LLVM's list leaves out what others imply
  ASSERT_TRUE(wide.ok());
  EXPECT_THAT("," + wide->features + ",", HasSubstr(",+avx512f,"));
  const auto xeon = parseTarget("sapphirerapids");
  ASSERT_TRUE(xeon.ok()) << xeon.status().message();
  for (const char *feature : {"+amx-bf16", "+amx-tile", "+avx512bf16", "+avx512fp16"})
    EXPECT_THAT("," + xeon->features + ",", HasSubstr("," + std::string(feature) + ","));
  EXPECT_EQ(xeon->features.find("+enqcmd"), std::string::npos); // no kernel has it
  EXPECT_FALSE(parseTarget("i686").ok());                       // nor runs there
}

TEST(Target, MissingFeaturesAreThoseThatAreKnownToBeAbsent) {
  EXPECT_EQ(missingFeatures("+avx2,+fma,-sse4a", "+avx2,-fma,-sse4a"), "fma");
  EXPECT_EQ(missingFeatures("+avx2,+fma", "-avx2,-fma"), "avx2, fma");
  EXPECT_EQ(missingFeatures("+avx2", "+fma"), "");
}

TEST(Target, UnknownNameListsTheChoices) {
  auto target = parseTarget("tpu");
  ASSERT_FALSE(target.ok());
  EXPECT_EQ(target.status().kind(), StatusKind::user);
  EXPECT_THAT(target.status().message(), HasSubstr("'tpu' is not known; choices: cpu, sm_80"));
}

TEST(Target, GpusAreNamedByArchitecture) {
  auto target = parseTarget("sm_90");
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->str(), "nvptx sm_90");
  EXPECT_EQ(parseTarget("sm_90a")->str(), "nvptx sm_90a");
  EXPECT_FALSE(parseTarget("sm_75").ok()); // no bf16
}

TEST(WarpRoles, NamesReadBack) {
  using Roles = Schedule::WarpRoles;
  for (Roles roles : {Roles::automatic, Roles::alike, Roles::cooperative, Roles::pingPong}) {
    auto read = parseWarpRoles(warpRolesName(roles));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read, roles);
  }
}

TEST(WarpRoles, UnknownNameListsTheChoices) {
  auto read = parseWarpRoles("pingpong");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().kind(), StatusKind::user);
  EXPECT_THAT(read.status().message(), HasSubstr("'pingpong'"));
  EXPECT_THAT(read.status().message(), HasSubstr("automatic, alike, cooperative, pingPong"));
}

TEST(CompileOptions, EveryFieldShowsInTheText) {
  const CompileOptions base;
  CompileOptions step, stages, warps, roles, raster, tf32, aligned, level;
  step.schedule.contractionStep = 64;
  stages.schedule.stages = 3;
  warps.schedule.warps = 8;
  roles.schedule.roles = Schedule::WarpRoles::pingPong;
  raster.schedule.rasterRows = 8;
  tf32.tf32 = true;
  aligned.alignedMatrices = true;
  level.optLevel = 3;
  for (const CompileOptions &other : {step, stages, warps, roles, raster, tf32, aligned, level})
    EXPECT_NE(base.str(), other.str());
}

} // namespace
} // namespace tilewright
