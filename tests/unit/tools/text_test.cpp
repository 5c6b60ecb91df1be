#include "tools/cli/text.h"

#include <gmock/gmock.h>

#include <cmath>
#include <sstream>

#include "tools/cli/plot.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

TEST(Text, printableKeepsUtf8AndEscapesTheRest) {
  EXPECT_EQ(printable("h\xc3\xb6he \xe5\xb1\xa4 \xf0\x9f\x98\x80"),
            "h\xc3\xb6he \xe5\xb1\xa4 \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("a\nb\x1b[2J\x7f"), "a\\x0ab\\x1b[2J\\x7f");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xe5\xb1x\xc0\x80"), "\\xe5\\xb1x\\xc0\\x80");
  EXPECT_EQ(printable("\xc2\x85"), "\\xc2\\x85");
  EXPECT_EQ(printable(""), "");
}

TEST(Text, tableAlignsByDisplayedWidth) {
  Table table({"kernel", "ms"});
  table.add({"\xce\xb1\xce\xb2", "12.5"});
  table.add({"softmax", "3"});
  EXPECT_EQ(table.str(), "  kernel     ms\n  \xce\xb1\xce\xb2       12.5\n  softmax     3\n");
}

TEST(Text, bytes) {}

TEST(Text, speed) {
  EXPECT_EQ(speedText(85.34e9), "85.3 GFLOP/s");
  EXPECT_EQ(speedText(714.1e12), "714.1 TFLOP/s");
}

std::vector<std::string> linesOf(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

TEST(Plot, fallsFromTheUpperLeftToTheLowerRight) {
  const std::vector<std::string> lines = linesOf(plot({4, 3, 2, 1}, {4, 4}, false));
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0], "    4.00 |**  ");
  EXPECT_EQ(lines[1], "         | ** ");
  EXPECT_EQ(lines[3], "    1.00 |   *");
  EXPECT_EQ(lines[5], "          1  4");
}

TEST(Plot, unicodeLinesHaveTheWidthAskedFor) {
  std::vector<double> values;
  for (int i = 0; i < 300; ++i)
    values.push_back(8 * std::exp(-i / 50.0));
  const std::vector<std::string> lines = linesOf(plot(values, {40, 8}, true));
  ASSERT_EQ(lines.size(), 10u);
  for (const std::string &line : lines)
    EXPECT_EQ(displayWidth(line), 50u) << line;
  EXPECT_THAT(lines[0], HasSubstr("\xe2\xa1")); // braille
}

TEST(Plot, oddValuesAreDrawnOrLeftOut) {
  EXPECT_EQ(plot({}, {}, true), "");
  EXPECT_EQ(linesOf(plot({NAN, INFINITY}, {4, 2}, false)).size(), 4u);
  EXPECT_THAT(plot({5}, {3, 3}, false), HasSubstr("***"));
  EXPECT_THAT(plot({1, NAN, 2}, {3, 2}, false), HasSubstr("*"));
}

} // namespace
} // namespace tilewright
