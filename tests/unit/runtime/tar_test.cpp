#include "runtime/disk/tar.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace tilewright {
namespace {

const std::vector<TarMember> kMembers = {{"a/empty", ""},
                                         {"a/short", "hello"},
                                         {"b/block", std::string(512, 'x')},
                                         {"b/more", std::string(513, '\0')}};

TEST(Tar, ReadsBack) {
  auto members = readTar(writeTar(kMembers));
  ASSERT_TRUE(members.ok()) << members.status().message();
  ASSERT_EQ(members->size(), kMembers.size());
  for (std::size_t i = 0; i < kMembers.size(); ++i) {
    EXPECT_EQ((*members)[i].name, kMembers[i].name);
    EXPECT_EQ((*members)[i].bytes, kMembers[i].bytes);
  }
  EXPECT_TRUE(readTar(writeTar({}))->empty());
}

TEST(Tar, IsWhatTarReadsAndWrites) {
  if (std::system("tar --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no tar program";
  test::TemporaryFolder folder;
  test::writeWholeFile(folder / "ours.tar", writeTar(kMembers));
  const std::string at = "cd " + folder.path() + " && ";
  ASSERT_EQ(std::system((at + "tar xf ours.tar && tar cf theirs.tar --format=ustar a b").c_str()), 0);
  EXPECT_EQ(test::readWholeFile(folder / "a/short"), "hello");
  EXPECT_EQ(test::readWholeFile(folder / "b/more"), kMembers[3].bytes);
  auto theirs = readTar(test::readWholeFile(folder / "theirs.tar"));
  ASSERT_TRUE(theirs.ok()) << theirs.status().message();
  EXPECT_EQ(theirs->size(), kMembers.size()); // the folders are skipped
}

TEST(Tar, TruncatedIsAnError) {
  const std::string whole = writeTar(kMembers);
  for (std::size_t length = 0; length + 512 < whole.size(); ++length)
    EXPECT_FALSE(readTar(whole.substr(0, length)).ok()) << length;
}

TEST(Tar, EveryFlippedBitOfAHeaderIsAnError) {
  std::string bytes = writeTar({{"a/short", "hello"}});
  for (std::size_t bit = 0; bit < 8 * 512; ++bit) {
    bytes[bit / 8] ^= 1 << bit % 8;
    auto members = readTar(bytes);
    // The checksum's own padding aside, nothing may change without notice.
    if (members.ok()) {
      ASSERT_EQ(members->size(), 1u) << bit;
      EXPECT_EQ((*members)[0].name, "a/short") << bit;
      EXPECT_EQ((*members)[0].bytes, "hello") << bit;
    } else {
      EXPECT_EQ(members.status().kind(), StatusKind::user);
    }
    bytes[bit / 8] ^= 1 << bit % 8;
  }
}

TEST(Tar, OtherFilesAreErrors) {
  EXPECT_FALSE(readTar("").ok());
  EXPECT_FALSE(readTar("PK\3\4").ok());
  EXPECT_FALSE(readTar(std::string(2000, 'x')).ok());
  EXPECT_FALSE(readTar(writeTar(kMembers) + "tail").ok());
}

TEST(Tar, LinksAreErrors) {
  test::TemporaryFolder folder;
  if (std::system("tar --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no tar program";
  ASSERT_EQ(std::system(("cd " + folder.path() + " && ln -s /etc/passwd link && tar cf l.tar link").c_str()),
            0);
  EXPECT_FALSE(readTar(test::readWholeFile(folder / "l.tar")).ok());
}

} // namespace
} // namespace tilewright
