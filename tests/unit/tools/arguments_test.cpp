#include "tools/cli/arguments.h"

#include <gmock/gmock.h>

namespace tilewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = OptionSpec::Kind;

Command sample() {
  Command command;
  command.name = "paint";
  command.summary = "paints a wall";
  command.usage = "[options]\nWALL";
  command.options = {{"--colour", "NAME", "of the wall"},
                     {"--coat", "BYTES", "thickness", Kind::list},
                     {"--wet", "", "is it?", Kind::flag},
                     {"--gloss", "G", "shine", Kind::later}};
  command.positionals = 1;
  return command;
}

Arguments parsed(const std::vector<std::string> &words) {
  StatusOr<Arguments> arguments = Arguments::parse(sample(), words);
  EXPECT_TRUE(arguments.ok()) << arguments.status().message();
  return arguments.ok() ? *arguments : Arguments();
}

std::string refusal(const std::vector<std::string> &words) {
  StatusOr<Arguments> arguments = Arguments::parse(sample(), words);
  if (arguments.ok()) return "it was taken";
  EXPECT_EQ(arguments.status().kind(), StatusKind::user);
  return arguments.status().message();
}

TEST(Arguments, takesValuesListsFlagsAndWords) {
  const Arguments arguments = parsed({"--colour", "red", "--coat=1", "--wet", "--coat", "-2", "north"});
  EXPECT_EQ(*arguments.text("--colour"), "red");
  EXPECT_THAT(arguments.list("--coat"), ElementsAre("1", "-2"));
  EXPECT_TRUE(arguments.has("--wet"));
  EXPECT_THAT(arguments.positionals(), ElementsAre("north"));
  EXPECT_FALSE(parsed({}).has("--wet"));
  EXPECT_THAT(parsed({}).list("--coat"), IsEmpty());
  EXPECT_EQ(*parsed({"--colour="}).text("--colour"), "");
}

TEST(Arguments, refusesWhatItDoesNotKnow) {
  EXPECT_THAT(refusal({"--color", "red"}), HasSubstr("expected --colour, found --color"));
  EXPECT_THAT(refusal({"--brush", "1"}), HasSubstr("expected --colour, --coat, --wet, found --brush"));
  EXPECT_THAT(refusal({"-x"}), HasSubstr("found -x"));
  EXPECT_THAT(refusal({"a", "b"}), HasSubstr("found 'b'"));
  EXPECT_THAT(refusal({"--gloss", "1"}), HasSubstr("--gloss is not available in this version"));
  EXPECT_THAT(refusal({"--colour", "red", "--colour", "red"}), HasSubstr("once, found it twice"));
  EXPECT_THAT(refusal({"--colour"}), HasSubstr("expected --colour NAME, found no value"));
  EXPECT_THAT(refusal({"--colour", "--wet"}), HasSubstr("found no value"));
  EXPECT_THAT(refusal({"--wet=1"}), HasSubstr("without a value"));
}

TEST(Arguments, choices) {
  const auto choice = [](const std::string &value) {
    return parsed({"--colour", value}).choice("--colour", {"red", "blue"}, {"gold"});
  };
  EXPECT_EQ(*choice("blue"), "blue");
  EXPECT_EQ(*parsed({}).choice("--colour", {"red", "blue"}), "red");
  EXPECT_THAT(choice("green").status().message(), HasSubstr("one of red, blue; found 'green'"));
  EXPECT_THAT(choice("").status().message(), HasSubstr("found ''"));
  EXPECT_THAT(choice("gold").status().message(),
              HasSubstr("--colour gold is not available in this version; use red"));
}

TEST(Arguments, integers) {
  const auto integer = [](const std::string &value) {
    return parsed({"--colour", value}).integer("--colour", 5);
  };
  EXPECT_EQ(*integer("-1"), -1);
  EXPECT_EQ(*integer("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(*integer("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(*parsed({}).integer("--colour", 5), 5);
  for (const char *wrong : {"", "nan", "1.5", "1e3", "9223372036854775808", " 1", "1 ", "0x10", "+1"})
    EXPECT_THAT(integer(wrong).status().message(), HasSubstr("an integer")) << wrong;
}

TEST(Arguments, bytes) {
  const auto bytes = [](const std::string &value) {
    return parsed({"--colour", value}).bytes("--colour", 5);
  };
  EXPECT_EQ(*bytes("1"), 1);
  EXPECT_EQ(*bytes("256MiB"), 256 << 20);
  EXPECT_EQ(*bytes("1GiB"), 1 << 30);
  EXPECT_EQ(*bytes("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(*parsed({}).bytes("--colour", 5), 5);
  for (const char *wrong : {"", "0", "-1", "-1MiB", "MiB", "1.5GiB", "1MB", "1mib", "1 MiB",
                            "9223372036854775808", "8388608TiB", "nan", "inf", "1e9", "1MiBMiB"})
    EXPECT_THAT(bytes(wrong).status().message(), HasSubstr("a number of bytes")) << wrong;
}

TEST(Arguments, shapes) {
  StatusOr<ProblemShape> shape = parseShape("1024,768,32768");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->rows, 1024);
  EXPECT_EQ(shape->hidden, 768);
  EXPECT_EQ(shape->classes, 32768);
  for (const char *wrong : {"", "1", "1,2", "1,2,3,4", "0,1,1", "1,-1,1", "1,,1", "1,2,3,", "a,b,c", "1x2x3",
                            "1,2,nan", "4294967296,4294967296,1", "9223372036854775808,1,1"})
    EXPECT_THAT(parseShape(wrong).status().message(), HasSubstr("--shape N,H,V")) << wrong;
  for (const char *largest : {"2147418112,1,1", "1,2147418112,1", "1,1,2147418112"})
    EXPECT_TRUE(parseShape(largest).ok()) << largest;
  for (const char *larger : {"2147418113,1,1", "1,2147418113,1", "1,1,2147418113"})
    EXPECT_THAT(parseShape(larger).status().message(), HasSubstr("sizes from 1 to 2147418112")) << larger;
}

TEST(Arguments, helpShowsWhatThereIs) {
  const std::string help = helpText(sample());
  EXPECT_THAT(help, HasSubstr("tilewright paint: paints a wall"));
  EXPECT_THAT(help, HasSubstr("  tilewright paint WALL\n"));
  EXPECT_THAT(help, HasSubstr("--colour NAME  of the wall"));
  EXPECT_THAT(help, ::testing::Not(HasSubstr("--gloss")));
}

} // namespace
} // namespace tilewright
