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

TEST(Sha256, SeesZeroBytes) { EXPECT_NE(sha256(std::string(1, '\0')), sha256(std::string(2, '\0'))); }

TEST(JoinFields, KeepsFieldsApart) {
  EXPECT_NE(joinFields({"ab", "c"}), joinFields({"a", "bc"}));
  EXPECT_NE(joinFields({"a", ""}), joinFields({"a"}));
  EXPECT_NE(joinFields({"1:a"}), joinFields({"1", "a"}));
  EXPECT_EQ(joinFields({"a", "b"}), joinFields({"a", "b"}));
}

} // namespace
} // namespace tilewright
