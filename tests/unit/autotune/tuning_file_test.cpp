// Tuning records as JSON, from us and from anyone.

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tuning_records.h"

namespace tilewright {
namespace {

using test::sampleRecord;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string textOf(const std::vector<TuningRecord> &records) { return encodeTuningFile({records, "", {}}); }
std::string sampleText() { return textOf({sampleRecord("f32"), sampleRecord("bf16")}); }

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(TuningFile, ReadsWhatItWrites) {
  const std::string text = sampleText();
  const auto file = decodeTuningFile(text);
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->records.size(), 2u);
  EXPECT_THAT(file->problems, IsEmpty());
  EXPECT_EQ(file->records[1].key.str(), sampleRecord("bf16").key.str());
  EXPECT_EQ(file->records[0].winners[0].configuration, sampleRecord("f32").winners[0].configuration);
  EXPECT_EQ(file->records[0].winners[0].spread.most, 12.75);
  EXPECT_EQ(file->records[0].winners[0].spread.clockMegahertz, 1755);
  EXPECT_EQ(encodeTuningFile(*file), text);
  EXPECT_EQ(encodeTuningFile(*decodeTuningFile(textOf({}))), textOf({}));
}

TEST(TuningFile, KeepsFieldsThatItDoesNotKnow) {
  std::string text = sampleText();
  for (const auto &[at, field] : {std::pair{"  \"records\"", "  \"written_by\": \"a later one\",\n"},
                                  std::pair{"\n    }", ",\n      \"energy\": {\"joules\":[1,2.5]}"},
                                  std::pair{",\"repetitions\"", ",\"p90\":13"}})
    text = text.insert(text.find(at), field);
  const auto file = decodeTuningFile(text);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_THAT(file->problems, IsEmpty());
  const std::string again = encodeTuningFile(*file);
  for (const char *field :
       {"\"written_by\": \"a later one\"", "\"energy\": {\"joules\":[1,2.5]}", "\"p90\":13"})
    EXPECT_THAT(again, HasSubstr(field));
  EXPECT_EQ(encodeTuningFile(*decodeTuningFile(again)), again);
}

TEST(TuningFile, ReadsTheVersionBefore) {
  TuningRecord record = sampleRecord("f32");
  record.workspaceLimit = 4096;
  const auto file = decodeTuningFile(replaced(textOf({record}), "\"version\": 3", "\"version\": 2"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(textOf(file->records), textOf({record}));
}

TEST(TuningFile, IsReadable) {
  EXPECT_THAT(sampleText(), HasSubstr("\"version\": 3,"));
  EXPECT_THAT(
      sampleText(),
      HasSubstr("\n        {\"milliseconds\":12.5,\"least_milliseconds\":12.25,\"most_milliseconds\":12.75,"
                "\"clock_megahertz\":1755.0,\"repetitions\":5,\"workspace_bytes\":4096,"
                "\"configuration\":{\"variant\":\"chunked\",\"chunk_rows\":512}}"));
  EXPECT_THAT(sampleText(),
              HasSubstr("\n        {\"part\":\"forward\",\"milliseconds\":3.5,\"repetitions\":5,"
                        "\"configuration\":{\"forward_rows\":128}}"));
}

TEST(TuningFile, TextThatIsNotUtf8StaysReadable) {
  TuningRecord record = sampleRecord("f32");
  record.deviceName = "\xff";
  EXPECT_THAT(decodeTuningFile(textOf({record}))->problems, IsEmpty());
}

TEST(TuningFile, KeysDoNotDependOnTheOrderOfValues) {
  const TuningKey one{"d", "o", {{"a", int64_t(1)}, {"b", "x"}}},
      two{"d", "o", {{"b", "x"}, {"a", int64_t(1)}}};
  EXPECT_EQ(one.str(), two.str());
  EXPECT_NE(one.str(), (TuningKey{"d", "o", {{"a", "1"}, {"b", "x"}}}.str()));
  EXPECT_NE(one.str(), (TuningKey{"do", "", {{"a", int64_t(1)}, {"b", "x"}}}.str()));
}

struct Damage {
  const char *from, *to, *message;
};

TEST(TuningFile, SaysWhyATextIsNoTuningFile) {
  for (const Damage &c : {
           Damage{"\"version\": 3", "\"version\": 1", "version: expected 2 to 3, found 1"},
           Damage{"\"version\": 3", "\"version\": 4", "version: expected 2 to 3, found 4"},
           Damage{"\"version\": 3", "\"version\": \"3\"", "version: expected an integer"},
           Damage{"tilewright tuning", "something else", "file.format"},
           Damage{"\"records\": [", "\"record\": [", "file.records"},
           Damage{"12.5", "1e999", "expected a JSON object"},
           Damage{"12.5", "NaN", "expected a JSON object"},
           Damage{"\"winners\": [", "\"winners\": [[[[[[[[[]]]]]]]],", "nested at most"},
       }) {
    const auto file = decodeTuningFile(replaced(sampleText(), c.from, c.to));
    ASSERT_FALSE(file.ok()) << c.to;
    EXPECT_EQ(file.status().kind(), StatusKind::user);
    EXPECT_THAT(file.status().message(), HasSubstr(c.message)) << c.to;
  }
}

TEST(TuningFile, OneWrongRecordLeavesTheOthers) {
  for (const Damage &c : {
           Damage{"12.5", "-1", "records[0].winners[0].milliseconds"},
           Damage{"12.5", "\"fast\"", "milliseconds"},
           Damage{"12.5", "2e9", "milliseconds"},
           Damage{"12.75", "\"slow\"", "most_milliseconds"},
           Damage{"1755", "-1", "clock_megahertz"},
           Damage{"4096", "-4096", "workspace_bytes"},
           Damage{"4096", "4096.5", "workspace_bytes"},
           Damage{"4096", "99999999999999999999", "workspace_bytes"},
           Damage{"4096", "18446744073709551615", "workspace_bytes"},
           Damage{":512", ":-512", "configuration"},
           Damage{":512", ":[512]", "configuration"},
           Damage{":512", ":null", "configuration"},
           Damage{"\"chunked\"", "\"chu\\nnked\"", "configuration"},
           Damage{"\"complete\": true", "\"complete\": 1", "complete"},
           Damage{"\"operation\": \"loss\"", "\"operation\": {}", "operation"},
           Damage{"\"workspace_limit\": 0", "\"limit_of_workspace\": 0", "workspace_limit"},
           Damage{"\"winners\": [", "\"winners\": [7,", "winners[0]"},
           Damage{"\"parts\": [", "\"parts\": [7,", "parts[0]"},
           Damage{"\"forward\"", "7", "parts[0].part"},
           Damage{"3.5", "-3.5", "parts[0].milliseconds"},
           Damage{"\"tried\": 61", "\"tried\": -1", "tried"},
       }) {
    const auto file = decodeTuningFile(replaced(sampleText(), c.from, c.to));
    ASSERT_TRUE(file.ok()) << c.to;
    ASSERT_EQ(file->problems.size(), 1u) << c.to;
    EXPECT_THAT(file->problems[0], HasSubstr(c.message)) << c.to;
    ASSERT_EQ(file->records.size(), 1u) << c.to;
    EXPECT_EQ(file->records[0].key.str(), sampleRecord("bf16").key.str());
  }
}

TEST(TuningFile, RefusesWhatIsTooLarge) {
  EXPECT_FALSE(decodeTuningFile(std::string(kMaxTuningFileBytes + 1, ' ')).ok());
  EXPECT_FALSE(decodeTuningFile(std::string(1000000, '[')).ok());
  std::string deep;
  for (int i = 0; i < 200000; ++i)
    deep += "{\"a\":";
  EXPECT_FALSE(decodeTuningFile(deep).ok());
  const auto isLeftOut = [](const char *from, const std::string &to) {
    return decodeTuningFile(replaced(sampleText(), from, to))->problems.size() == 1;
  };
  EXPECT_TRUE(isLeftOut("\"loss\"", "\"" + std::string(600, 'x') + "\""));
  std::string many = "[";
  for (int i = 0; i < 5000; ++i)
    many += "1,";
  EXPECT_TRUE(isLeftOut("\"winners\": [", "\"winners\": " + many));
}

TEST(TuningFile, AnyDamageIsAnErrorOrHarmless) {
  const std::string text = sampleText();
  for (std::size_t end = 0; end < text.size() - 1; ++end)
    EXPECT_FALSE(decodeTuningFile(text.substr(0, end)).ok()) << end;
  std::mt19937 random(1);
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = text;
    for (int flips = 1 + round % 3; flips > 0; --flips)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    const auto file = decodeTuningFile(damaged);
    EXPECT_TRUE(!file.ok() || decodeTuningFile(encodeTuningFile(*file))->problems.empty());
  }
}

} // namespace
} // namespace tilewright
