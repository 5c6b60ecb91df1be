#include "tools/io/output_folder.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tools/io/npy.h"

namespace tilewright {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class OutputFolderTest : public testing::Test {
protected:
  void SetUp() override {
    root_ = std::string(testing::TempDir()) + "/output_folder_XXXXXX";
    ASSERT_NE(mkdtemp(root_.data()), nullptr);
  }
  void TearDown() override { fs::remove_all(root_); }

  std::vector<std::string> namesIn(const std::string &folder) {
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(folder))
      names.push_back(entry.path().filename());
    return names;
  }
  std::string contents(const std::string &path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string root_;
};

TEST_F(OutputFolderTest, makesTheFolderAndMovesFilesIntoIt) {
  const std::string out = root_ + "/out";
  {
    StatusOr<OutputFolder> folder = OutputFolder::prepare(out, {"loss.npy", "notes.txt"});
    ASSERT_TRUE(folder.ok()) << folder.status().message();
    EXPECT_FALSE(fs::exists(out));
    const float values[] = {1, 2, 3};
    ASSERT_TRUE(folder->addNpy("loss.npy", {3}, values).ok());
    ASSERT_TRUE(folder->addText("notes.txt", "hello").ok());
    ASSERT_TRUE(folder->commit().ok());
  }
  EXPECT_THAT(namesIn(out), UnorderedElementsAre("loss.npy", "notes.txt"));
  EXPECT_EQ(contents(out + "/notes.txt"), "hello");
  StatusOr<NpyFile> file = NpyFile::open(out + "/loss.npy");
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::vector<float> read(3);
  ASSERT_TRUE(file->readFloats(ElementType::f32, read.data()).ok());
  EXPECT_THAT(read, ::testing::ElementsAre(1, 2, 3));
}

TEST_F(OutputFolderTest, withoutCommitNothingRemains) {
  const std::string out = root_ + "/out";
  {
    StatusOr<OutputFolder> folder = OutputFolder::prepare(out, {"a"});
    ASSERT_TRUE(folder->addText("a", "x").ok());
    EXPECT_TRUE(fs::exists(out));
  }
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(OutputFolderTest, whatWasThereStays) {
  std::ofstream(root_ + "/old") << "old";
  std::ofstream(root_ + "/a") << "before";
  {
    StatusOr<OutputFolder> folder = OutputFolder::prepare(root_, {"a"});
    ASSERT_TRUE(folder->addText("a", "after").ok());
    EXPECT_EQ(contents(root_ + "/a"), "before");
  }
  EXPECT_THAT(namesIn(root_), UnorderedElementsAre("old", "a"));
  EXPECT_EQ(contents(root_ + "/a"), "before");
  {
    StatusOr<OutputFolder> folder = OutputFolder::prepare(root_, {"a"});
    ASSERT_TRUE(folder->addText("a", "after").ok());
    ASSERT_TRUE(folder->commit().ok());
  }
  EXPECT_THAT(namesIn(root_), UnorderedElementsAre("old", "a"));
  EXPECT_EQ(contents(root_ + "/a"), "after");
  EXPECT_EQ(contents(root_ + "/old"), "old");
}

TEST_F(OutputFolderTest, refusesPlacesThatCannotHoldIt) {
  const auto refusal = [](const std::string &path) {
    StatusOr<OutputFolder> folder = OutputFolder::prepare(path, {"loss.npy"});
    EXPECT_EQ(folder.status().kind(), StatusKind::user);
    return folder.status().message();
  };
  std::ofstream(root_ + "/file") << "x";
  EXPECT_THAT(refusal(root_ + "/file"), HasSubstr("no folder"));
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("no folder"));
  EXPECT_THAT(refusal(root_ + "/absent/out"), HasSubstr("to make it in"));
  EXPECT_THAT(refusal(root_ + "/file/out"), HasSubstr("to make it in"));
  EXPECT_THAT(refusal(""), HasSubstr("empty"));
  fs::create_directory(root_ + "/loss.npy");
  EXPECT_THAT(refusal(root_), HasSubstr("a folder called loss.npy"));
}

TEST_F(OutputFolderTest, aDiskWithoutRoomLeavesNothing) {
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const auto previous = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  {
    StatusOr<OutputFolder> folder = OutputFolder::prepare(root_ + "/out", {"a", "b"});
    EXPECT_TRUE(folder->addText("a", "x").ok());
    const Status status = folder->addText("b", std::string(2000, 'y'));
    EXPECT_EQ(status.kind(), StatusKind::runtime);
    EXPECT_THAT(status.message(), HasSubstr("out/b: cannot be written: File too large"));
  }
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, previous);
  EXPECT_FALSE(fs::exists(root_ + "/out"));
}

} // namespace
} // namespace tilewright
