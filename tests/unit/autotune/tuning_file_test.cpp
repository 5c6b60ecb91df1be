// Tuning records as JSON, from us and from anyone.

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tuning_records.h"

namespace tilewright {
namespace {

using test::sampleRecord;
using ::testing::HasSubstr;

std::string sampleText() { return encodeRecords({sampleRecord("f32"), sampleRecord("bf16")}); }

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(TuningFile, ReadsWhatItWrites) {
  const std::string text = sampleText();
  const auto records = decodeRecords(text);
  ASSERT_TRUE(records.ok()) << records.status().message();
  ASSERT_EQ(records->size(), 2u);
  EXPECT_EQ((*records)[1].key.str(), sampleRecord("bf16").key.str());
  EXPECT_EQ((*records)[0].winners[0].configuration, sampleRecord("f32").winners[0].configuration);
  EXPECT_EQ(encodeRecords(*records), text);
  EXPECT_EQ(encodeRecords(*decodeRecords(encodeRecords({}))), encodeRecords({}));
}

TEST(TuningFile, IsReadable) {
  EXPECT_THAT(sampleText(), HasSubstr("\"version\": 2,"));
  EXPECT_THAT(sampleText(),
              HasSubstr("\n        {\"milliseconds\":12.5,\"repetitions\":5,\"workspace_bytes\":4096,"
                        "\"configuration\":{\"variant\":\"chunked\",\"chunk_rows\":512}}"));
  EXPECT_THAT(sampleText(),
              HasSubstr("\n        {\"part\":\"forward\",\"milliseconds\":3.5,\"repetitions\":5,"
                        "\"configuration\":{\"forward_rows\":128}}"));
}

TEST(TuningFile, TextThatIsNotUtf8StaysReadable) {
  TuningRecord record = sampleRecord("f32");
  record.deviceName = "\xff";
  EXPECT_TRUE(decodeRecords(encodeRecords({record})).ok());
}

TEST(TuningFile, KeysDoNotDependOnTheOrderOfValues) {
  const TuningKey one{"d", "o", {{"a", int64_t(1)}, {"b", "x"}}},
      two{"d", "o", {{"b", "x"}, {"a", int64_t(1)}}};
  EXPECT_EQ(one.str(), two.str());
  EXPECT_NE(one.str(), (TuningKey{"d", "o", {{"a", "1"}, {"b", "x"}}}.str()));
  EXPECT_NE(one.str(), (TuningKey{"do", "", {{"a", int64_t(1)}, {"b", "x"}}}.str()));
}

TEST(TuningFile, SaysWhatIsWrongAndWhere) {
  struct Case {
    const char *from, *to, *message;
  };
  for (const Case &c : {
           Case{"\"version\": 2", "\"version\": 1", "version: expected 2, found 1"},
           Case{"\"version\": 2", "\"version\": \"2\"", "version: expected an integer"},
           Case{"tilewright tuning", "something else", "file.format"},
           Case{"\"records\": [", "\"record\": [", "file.records"},
           Case{"12.5", "-1", "records[0].winners[0].milliseconds"},
           Case{"12.5", "\"fast\"", "milliseconds"},
           Case{"12.5", "1e999", "expected a JSON object"},
           Case{"12.5", "2e9", "milliseconds"},
           Case{"12.5", "NaN", "expected a JSON object"},
           Case{"4096", "-4096", "workspace_bytes"},
           Case{"4096", "4096.5", "workspace_bytes"},
           Case{"4096", "99999999999999999999", "workspace_bytes"},
           Case{"4096", "18446744073709551615", "workspace_bytes"},
           Case{":512", ":-512", "configuration"},
           Case{":512", ":[512]", "configuration"},
           Case{":512", ":null", "configuration"},
           Case{"\"chunked\"", "\"chu\\nnked\"", "configuration"},
           Case{"\"complete\": true", "\"complete\": 1", "complete"},
           Case{"\"operation\": \"loss\"", "\"operation\": {}", "operation"},
           Case{"\"winners\": [", "\"winners\": [7,", "winners[0]"},
           Case{"\"parts\": [", "\"parts\": [7,", "parts[0]"},
           Case{"\"forward\"", "7", "parts[0].part"},
           Case{"3.5", "-3.5", "parts[0].milliseconds"},
           Case{"\"tried\": 61", "\"tried\": -1", "tried"},
           Case{"\"winners\": [", "\"winners\": [[[[[[[[[]]]]]]]],", "nested at most"},
       }) {
    const auto records = decodeRecords(replaced(sampleText(), c.from, c.to));
    ASSERT_FALSE(records.ok()) << c.to;
    EXPECT_EQ(records.status().kind(), StatusKind::user);
    EXPECT_THAT(records.status().message(), HasSubstr(c.message)) << c.to;
  }
}

TEST(TuningFile, RefusesWhatIsTooLarge) {
  EXPECT_FALSE(decodeRecords(std::string(kMaxTuningFileBytes + 1, ' ')).ok());
  EXPECT_FALSE(decodeRecords(std::string(1000000, '[')).ok());
  std::string deep;
  for (int i = 0; i < 200000; ++i)
    deep += "{\"a\":";
  EXPECT_FALSE(decodeRecords(deep).ok());
  EXPECT_FALSE(decodeRecords(replaced(sampleText(), "\"loss\"", "\"" + std::string(600, 'x') + "\"")).ok());
  std::string many = "[";
  for (int i = 0; i < 5000; ++i)
    many += "1,";
  EXPECT_FALSE(decodeRecords(replaced(sampleText(), "\"winners\": [", "\"winners\": " + many)).ok());
}

TEST(TuningFile, AnyDamageIsAnErrorOrHarmless) {
  const std::string text = sampleText();
  for (std::size_t end = 0; end < text.size() - 1; ++end)
    EXPECT_FALSE(decodeRecords(text.substr(0, end)).ok()) << end;
  std::mt19937 random(1);
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = text;
    for (int flips = 1 + round % 3; flips > 0; --flips)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    const auto records = decodeRecords(damaged);
    EXPECT_TRUE(!records.ok() || decodeRecords(encodeRecords(*records)).ok());
  }
}

} // namespace
} // namespace tilewright
