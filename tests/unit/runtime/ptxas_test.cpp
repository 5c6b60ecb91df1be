// NVIDIA's assembler as a program: scripts stand in for it, and the real one runs where there is one.

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/base/env.h"
#include "runtime/cuda/cuda_device.h"
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
