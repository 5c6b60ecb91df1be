#include "compiler/base/hash.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

// FIPS 180-4's own examples.
TEST(Sha256, MatchesTheStandard) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// The length takes the end of the last block, or of one more.
TEST(Sha256, EndsOfBlocks) {
  EXPECT_EQ(sha256(std::string(55, 'x')), "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072");
  EXPECT_EQ(sha256(std::string(56, 'x')), "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e");
  EXPECT_EQ(sha256(std::string(63, 'x')), "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2");
  EXPECT_EQ(sha256(std::string(64, 'x')), "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
  EXPECT_EQ(sha256(std::string(119, 'x')),
            "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c");
  EXPECT_EQ(sha256(std::string(120, 'x')),
            "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98");
}

TEST(Sha256, SeesZeroBytes) { EXPECT_NE(sha256(std::string(1, '\0')), sha256(std::string(2, '\0'))); }

TEST(JoinFields, KeepsFieldsApart) {
  EXPECT_NE(joinFields({"ab", "c"}), joinFields({"a", "bc"}));
  EXPECT_NE(joinFields({"a", ""}), joinFields({"a"}));
  EXPECT_NE(joinFields({"1:a"}), joinFields({"1", "a"}));
  EXPECT_EQ(joinFields({"a", "b"}), joinFields({"a", "b"}));
}

} // namespace
} // namespace tilewright
