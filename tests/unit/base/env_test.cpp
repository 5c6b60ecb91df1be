#include "compiler/base/env.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tilewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EnvironmentTest : public ::testing::Test {
protected:
  void SetUp() override {
    for (const EnvVariable &variable : envVariables())
      unsetenv(variable.name);
  }
  static void set(const char *name, const char *value) { setenv(name, value, 1); }
};

TEST_F(EnvironmentTest, HasDefaults) {
  auto environment = readEnvironment();
  ASSERT_TRUE(environment.ok());
  EXPECT_EQ(environment->cacheDir, "");
  EXPECT_EQ(environment->device, "cpu");
  EXPECT_TRUE(environment->dump.empty());
  EXPECT_EQ(environment->log, LogLevel::warning);
  EXPECT_EQ(environment->threads, 0);
  EXPECT_EQ(environment->autotune, AutotuneMode::read);
}

TEST_F(EnvironmentTest, CacheFolderFollowsTheUsualOrder) {
  set("HOME", "/home/ada");
  EXPECT_EQ(readEnvironment()->cacheDir, "/home/ada/.cache/tilewright");
  set("XDG_CACHE_HOME", "/var/ada");
  EXPECT_EQ(readEnvironment()->cacheDir, "/var/ada/tilewright");
  set("TILEWRIGHT_CACHE_DIR", "/tmp/kernels");
  EXPECT_EQ(readEnvironment()->cacheDir, "/tmp/kernels");
  set("TILEWRIGHT_CACHE_DIR", "off");
  EXPECT_EQ(readEnvironment()->cacheDir, "");
}

TEST_F(EnvironmentTest, RelativeHomeIsNoHome) {
  set("HOME", "here");
  set("XDG_CACHE_HOME", "there");
  EXPECT_EQ(readEnvironment()->cacheDir, "");
}

TEST_F(EnvironmentTest, ReadsEveryVariable) {
  set("TILEWRIGHT_BUNDLES", "/one.bundle::two.bundle");
  set("TILEWRIGHT_DEVICE", "cuda:3");
  set("TILEWRIGHT_DUMP", "tile,assembly");
  set("TILEWRIGHT_DUMP_DIR", "/tmp/dump");
  set("TILEWRIGHT_LOG", "debug");
  set("TILEWRIGHT_TARGET", "sm_80");
  set("TILEWRIGHT_THREADS", "7");
  set("TILEWRIGHT_AUTOTUNE", "write");
  set("PATH", "/one:here::/two");
  set("CUDA_HOME", "/toolkit");
  auto environment = readEnvironment();
  ASSERT_TRUE(environment.ok());
  EXPECT_EQ(environment->device, "cuda:3");
  EXPECT_THAT(environment->dump, ElementsAre("tile", "assembly"));
  EXPECT_EQ(environment->dumpDir, "/tmp/dump");
  EXPECT_EQ(environment->log, LogLevel::debug);
  EXPECT_EQ(environment->target, "sm_80");
  EXPECT_THAT(environment->toolFolders, ElementsAre("/one", "/two", "/toolkit/bin"));
  EXPECT_EQ(environment->threads, 7);
  EXPECT_EQ(environment->autotune, AutotuneMode::write);
  set("TILEWRIGHT_AUTOTUNE", "off");
  EXPECT_EQ(readEnvironment()->autotune, AutotuneMode::off);
}

TEST_F(EnvironmentTest, EmptyIsUnset) {
  for (const EnvVariable &variable : envVariables())
    set(variable.name, "");
  ASSERT_TRUE(readEnvironment().ok());
  EXPECT_EQ(readEnvironment()->device, "cpu");
}

TEST_F(EnvironmentTest, WhatIsNotUnderstoodNamesVariableValueAndChoices) {
  struct Case {
    const char *name, *value, *choice;
  };
  for (Case c :
       {Case{"TILEWRIGHT_DEVICE", "tpu", "cuda"}, Case{"TILEWRIGHT_DEVICE", "cuda:", "cuda"},
        Case{"TILEWRIGHT_DEVICE", "cuda:-1", "cuda"}, Case{"TILEWRIGHT_DEVICE", "CPU", "cpu"},
        Case{"TILEWRIGHT_DUMP", "tile,ptxx", "assembly"}, Case{"TILEWRIGHT_DUMP", "tile,", "lowered"},
        Case{"TILEWRIGHT_LOG", "loud", "warning"}, Case{"TILEWRIGHT_AUTOTUNE", "on", "write"},
        Case{"TILEWRIGHT_THREADS", "0", "1 to 1024"}, Case{"TILEWRIGHT_THREADS", "two", "1 to 1024"},
        Case{"TILEWRIGHT_THREADS", "-2", "1 to 1024"}, Case{"TILEWRIGHT_THREADS", "1025", "1 to 1024"},
        Case{"TILEWRIGHT_THREADS", "2 ", "1 to 1024"},
        Case{"TILEWRIGHT_THREADS", "99999999999999999999", "1 to 1024"}}) {
    SetUp();
    set(c.name, c.value);
    auto environment = readEnvironment();
    ASSERT_FALSE(environment.ok()) << c.name << "=" << c.value;
    EXPECT_EQ(environment.status().kind(), StatusKind::user);
    EXPECT_THAT(environment.status().message(), HasSubstr(c.name));
    EXPECT_THAT(environment.status().message(), HasSubstr(std::string("'") + c.value + "'"));
    EXPECT_THAT(environment.status().message(), HasSubstr(c.choice));
  }
}

TEST_F(EnvironmentTest, OnlyVariablesThatChangeCodeEnterTheKey) {
  set("TILEWRIGHT_LOG", "debug");
  set("TILEWRIGHT_THREADS", "2");
  set("HOME", "/home/ada");
  EXPECT_EQ(readEnvironment()->keyLines, "");
}

} // namespace
} // namespace tilewright
