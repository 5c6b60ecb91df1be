#include "compiler/base/byte_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace tilewright {
namespace {

TEST(ByteText, aboutSoMany) {
  EXPECT_EQ(byteText(12), "12 bytes");
  EXPECT_EQ(byteText(64 << 20), "64 MiB");
  EXPECT_EQ(byteText(1.5 * (1 << 30)), "1.5 GiB");
  EXPECT_EQ(byteText(5e16), "45475 TiB");
}

TEST(ByteText, exactlySoMany) {
  EXPECT_EQ(exactByteText(0), "0 bytes");
  EXPECT_EQ(exactByteText(1023), "1023 bytes");
  EXPECT_EQ(exactByteText(1024), "1 KiB (1024 bytes)");
  EXPECT_EQ(exactByteText(1 << 20), "1 MiB (1048576 bytes)");
  EXPECT_EQ(exactByteText((3 << 19) + 1), "1.5 MiB (1572865 bytes)");
  EXPECT_EQ(exactByteText(std::numeric_limits<int64_t>::max()), "8388608.0 TiB (9223372036854775807 bytes)");
}

} // namespace
} // namespace tilewright
