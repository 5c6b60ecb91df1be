// NVIDIA's assembler as a program: scripts stand in for it, and the real one runs where there is one.

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/base/env.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/program.h"
#include "runtime/cuda/ptxas.h"
#include "tests/support/fake_driver.h"
#include "tests/support/ptx_assembler.h"
#include "tests/support/temporary_folder.h"

namespace tilewright {
namespace {

using namespace cuda;
using test::fakeCubin;
using test::FakeDriver;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kDriver = 12040;

/// A `ptxas` of this release that does `work` with $source and $cubin.
void writeProgram(const TemporaryFolder &folder, const std::string &release, const std::string &work) {
  const std::string path = folder / "ptxas";
  test::writeWholeFile(path, "#!/bin/sh\n"
                             "if [ \"$1\" = --version ]; then echo \"tools, release " +
                                 release + ", V" + release +
                                 ".99\"; exit; fi\n"
                                 "arch=$1 source=$2 cubin=$4\n" +
                                 work + "\n");
  chmod(path.c_str(), 0700);
}

TEST(Ptxas, IsTheFirstThatTheDriverIsNotTooOldFor) {
  TemporaryFolder none, newer, good, later;
  writeProgram(newer, "12.5", "");
  writeProgram(good, "12.4", "");
  writeProgram(later, "11.8", "");
  const std::vector<std::string> folders = {none.path(), newer.path(), good.path(), later.path()};
  EXPECT_EQ(Ptxas::find(folders, kDriver)->path(), good / "ptxas");
  EXPECT_EQ(Ptxas::find(folders, 12030)->path(), later / "ptxas");
  EXPECT_FALSE(Ptxas::find(folders, 11070));
  EXPECT_FALSE(Ptxas::find({}, kDriver));
}

TEST(Ptxas, OneThatDoesNotRunIsNone) {
  TemporaryFolder silent, noProgram;
  test::writeWholeFile(silent / "ptxas", "#!/bin/sh\nexit 0\n");
  chmod((silent / "ptxas").c_str(), 0700);
  test::writeWholeFile(noProgram / "ptxas", "no program");
  chmod((noProgram / "ptxas").c_str(), 0700);
  EXPECT_FALSE(Ptxas::find({silent.path(), noProgram.path()}, kDriver));
}

TEST(Ptxas, MakesACubinOrSaysWhyNot) {
  TemporaryFolder folder;
  writeProgram(folder, "12.4", "(echo $arch; cat $source) > $cubin");
  const Ptxas program = *Ptxas::find({folder.path()}, kDriver);
  EXPECT_EQ(*program.assemble("axpy", "text", "sm_90a"), "-arch=sm_90a\ntext");
  writeProgram(folder, "12.4", "echo 'line 3: error: no such instruction' >&2; exit 255");
  const Status refused = program.assemble("axpy", "text", "sm_90").status();
  EXPECT_EQ(refused.kind(), StatusKind::compile);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("'axpy'"), HasSubstr("line 3: error: no such instruction")));
  writeProgram(folder, "12.4", "exit 0");
  EXPECT_EQ(program.assemble("axpy", "text", "sm_90").status().kind(), StatusKind::compile);
}

// Whoever ignores SIGCHLD has no exit codes from waitpid.
TEST(Ptxas, RunsWhereTheApplicationIgnoresItsChildren) {
  TemporaryFolder folder;
  writeProgram(folder, "12.4", "cat $source > $cubin; exit $(cat $source)");
  void (*before)(int) = signal(SIGCHLD, SIG_IGN);
  const std::optional<Ptxas> program = Ptxas::find({folder.path()}, kDriver);
  ASSERT_TRUE(program);
  EXPECT_EQ(*program->assemble("axpy", "0", "sm_90"), "0");
  EXPECT_FALSE(program->assemble("axpy", "1", "sm_90").ok());
  signal(SIGCHLD, before);
}

TEST(Ptxas, IsGivenNeitherTheEnvironmentNorDescriptors) {
  TemporaryFolder folder;
  writeProgram(folder, "12.4", "(echo $HOME$TILEWRIGHT_TEST_SECRET; ls /proc/self/fd | wc -l) > $cubin");
  setenv("TILEWRIGHT_TEST_SECRET", "secret", 1);
  const int inherited = dup(STDOUT_FILENO); // without close-on-exec
  // The three of every process, and the one by which `ls` reads the folder.
  EXPECT_EQ(*Ptxas::find({folder.path()}, kDriver)->assemble("axpy", "", "sm_90"), "\n4\n");
  close(inherited);
  unsetenv("TILEWRIGHT_TEST_SECRET");
}

TEST(Ptxas, IsNotUsedWhereOthersMayWrite) {
  TemporaryFolder folder;
  writeProgram(folder, "12.4", "");
  for (mode_t mode : {0777, 0770}) {
    chmod(folder.path().c_str(), mode);
    ::testing::internal::CaptureStderr();
    EXPECT_FALSE(Ptxas::find({folder.path()}, kDriver));
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr("warning"), HasSubstr("others may write " + folder.path())));
  }
  chmod(folder.path().c_str(), 0755);
  EXPECT_TRUE(Ptxas::find({folder.path()}, kDriver));
  chmod((folder / "ptxas").c_str(), 0722);
  EXPECT_FALSE(Ptxas::find({folder.path()}, kDriver));
}

TEST(Program, IsKilledWhenItsTimeIsOut) {
  TemporaryFolder folder;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(runProgram({"/bin/sleep", "60"}, folder / "words", std::chrono::milliseconds(100)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_TRUE(runProgram({"/bin/true"}, folder / "words", std::chrono::seconds(30)));
  EXPECT_FALSE(runProgram({"/bin/false"}, folder / "words", std::chrono::seconds(30)));
  EXPECT_FALSE(runProgram({"/no/such/program"}, folder / "words", std::chrono::seconds(30)));
}

TEST(Ptxas, TheRealOneAssembles) {
  const std::string command = test::findPtxAssembler();
  if (command.empty()) GTEST_SKIP() << "no ptxas on PATH or below CUDA_HOME";
  std::vector<std::string> folders = readEnvironment()->toolFolders;
  folders.push_back("/usr/local/cuda/bin");
  const std::optional<Ptxas> program = Ptxas::find(folders, 999990);
  ASSERT_TRUE(program);
  const char *ptx = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n";
  EXPECT_THAT(*program->assemble("nothing", ptx, "sm_80"), StartsWith("\177ELF"));
  EXPECT_THAT(program->assemble("nothing", "nonsense", "sm_80").status().message(), HasSubstr("error"));
}

class DeviceWithPtxas : public ::testing::Test {
protected:
  std::unique_ptr<Device> open(const std::string &target = "") {
    return *CudaDevice::open(fake.table(), 0, [](const std::string &) { return std::optional<int>(); },
                             target, {folder.path()});
  }

  FakeDriver fake;
  TemporaryFolder folder;
};

TEST_F(DeviceWithPtxas, AssemblesWholePrograms) {
  test::writeWholeFile(folder / "made", fakeCubin("axpy"));
  writeProgram(folder, "12.4", "echo $arch > " + folder / "arch" + "; cat " + folder / "made" + " > $cubin");
  for (const char *target : {"sm_90a", "sm_80"})
    for (bool persistent : {false, true}) {
      Artifact artifact;
      artifact.kernel = "axpy";
      artifact.assembly = "text";
      artifact.persistent = persistent;
      ASSERT_TRUE(open(target)->assemble(artifact).ok());
      EXPECT_EQ(artifact.binary, fakeCubin("axpy"));
      EXPECT_EQ(test::readWholeFile(folder / "arch"),
                target == std::string("sm_90a") ? "-arch=sm_90a\n" : "-arch=sm_90\n");
    }
  EXPECT_EQ(fake.assembled, "");
}

// A process without it would keep PTX for all others.
TEST_F(DeviceWithPtxas, ItsReleaseIsPartOfTheCachesKey) {
  const std::string without = open()->info().assembler;
  writeProgram(folder, "12.4", "");
  EXPECT_EQ(open()->info().assembler, without + ", ptxas 12.4.99");
  writeProgram(folder, "12.3", "");
  EXPECT_EQ(open()->info().assembler, without + ", ptxas 12.3.99");
}

TEST_F(DeviceWithPtxas, AsksTheDriverWhenItFails) {
  writeProgram(folder, "12.4", "exit 1");
  Artifact artifact;
  artifact.kernel = "axpy";
  artifact.assembly = "text of axpy";
  artifact.persistent = true;
  const std::unique_ptr<Device> device = open();
  ASSERT_TRUE(device->assemble(artifact).ok());
  EXPECT_EQ(artifact.binary, "");
  artifact.persistent = false;
  ASSERT_TRUE(device->assemble(artifact).ok());
  EXPECT_EQ(artifact.binary, fakeCubin(std::string("text of axpy") + '\0'));
}

} // namespace
} // namespace tilewright
