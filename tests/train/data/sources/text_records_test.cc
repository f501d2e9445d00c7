// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "train/data/sources/text_records.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/train/data/data_files.h"
#include "train/data/sources/line_index.h"
#include "train/data/sources/text_fields.h"
#include "train/tokenizers/byte_tokenizer.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::mtf::testing::WriteDataFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const RecordSource> Texts(
    const std::vector<std::string>& files,
    const TextRecordsOptions& options = {}) {
  return *OpenTextRecords(files, std::make_shared<const ByteTokenizer>(),
                          options);
}

std::string TextOf(const std::vector<int32_t>& tokens) {
  return *ByteTokenizer().Decode(tokens);
}

TEST(LineIndex, FindsEveryLineThatIsNotBlank) {
  // Many lines, so that more than one has an entry; blanks of all kinds.
  std::string first = "\xEF\xBB\xBF", second;
  std::vector<std::string> lines, names;
  for (int i = 0; i < 100; ++i) {
    lines.push_back(absl::StrCat("line ", i));
    absl::StrAppend(&first, lines.back(), i % 3 == 0 ? "\r\n" : "\n");
    names.push_back(absl::StrCat(":", 1 + i + i / 7));
    if (i % 7 == 6) first += i % 2 == 0 ? " \t\r\n" : "\n";
  }
  second = "\n\nlast line";
  lines.push_back("last line");
  names.push_back(":3");
  std::vector<std::shared_ptr<const MappedFile>> files;
  for (const std::string& text :
       {std::string(), first, std::string("\n"), second, std::string()}) {
    files.push_back(*MappedFile::Open(
        WriteDataFile(absl::StrCat(files.size(), ".txt"), text), "text"));
  }
  const LineIndex index(files);
  ASSERT_EQ(index.size(), 101);
  for (int64_t i = 0; i < 101; ++i) {
    EXPECT_EQ(index.Line(i), lines[i]);
    EXPECT_THAT(index.NameOf(i),
                HasSubstr((i < 100 ? "1.txt" : "3.txt") + names[i]));
  }
}

TEST(TextRecords, LinesAndFilesAreTexts) {
  const std::string path = WriteDataFile("t.txt", "one\n\ntwo\r\nthree");
  const auto lines = Texts({path});
  ASSERT_EQ(lines->size(), 3);
  EXPECT_EQ(TextOf(lines->Read(1)->tokens), "two");
  EXPECT_EQ(lines->NameOf(1), path + ":3");
  const auto files = Texts({path}, {.format = TextFormat::kFiles, .eos = true});
  ASSERT_EQ(files->size(), 1);
  const std::vector<int32_t> tokens = files->Read(0)->tokens;
  EXPECT_EQ(TextOf(tokens), "one\n\ntwo\r\nthree");
  EXPECT_EQ(tokens.back(), ByteTokenizer::kEndOfText);
}

TEST(TextRecords, JsonLinesGiveFields) {
  const std::string path = WriteDataFile(
      "t.jsonl",
      R"({"id": 1, "text": "a \u00e4\n", "meta": {"text": "no"}})"
      "\n"
      R"({"text": "first", "text": "second", "list": [1, {"text": 2}, "x"]})"
      "\n"
      R"({"summary": "s", "text": "t"})");
  const auto texts = Texts({path}, {.format = TextFormat::kJsonLines});
  ASSERT_EQ(texts->size(), 3);
  EXPECT_EQ(TextOf(texts->Read(0)->tokens), "a \xc3\xa4\n");
  EXPECT_EQ(TextOf(texts->Read(1)->tokens), "second");
  const auto pairs = Texts(
      {path}, {.format = TextFormat::kJsonLines, .target_field = "summary"});
  EXPECT_EQ(TextOf(pairs->Read(2)->tokens), "t");
  EXPECT_EQ(TextOf(pairs->Read(2)->targets), "s");
  EXPECT_THAT(pairs->Read(0),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr(path + ":1"),
                             HasSubstr("it has no field \"summary\""))));
}

TEST(TextRecords, BadJsonIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"text": "a")", "it is not JSON at byte"},
      {R"({"text": "a"} x)", "it is not JSON at byte"},
      {R"(["text"])", "it is an array, not a JSON object"},
      {R"("text")", "it is a string, not a JSON object"},
      {"17", "it is a number, not a JSON object"},
      {"null", "it is null, not a JSON object"},
      {R"({"text": 1})", "its field \"text\" is a number, not a text"},
      {R"({"text": ["a"]})", "its field \"text\" is an array, not a text"},
      {R"({"text": {"a": "b"}})", "its field \"text\" is an object"},
      {R"({"text": null})", "its field \"text\" is null"},
      {R"({"text": true})", "its field \"text\" is a bool"},
      {"{\"text\": \"\xff\"}", "it is not JSON at byte"},
      {R"({"texts": "a"})", "it has no field \"text\""},
      {"{}", "it has no field \"text\""},
      {std::string(100000, '['), "it is an array"},
      {"{\"a\":" + std::string(100000, '['), "it is not JSON at byte"}};
  for (const auto& [line, message] : cases) {
    const auto texts = Texts({WriteDataFile("bad.jsonl", line)},
                             {.format = TextFormat::kJsonLines});
    EXPECT_THAT(texts->Read(0),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr("bad record"),
                               HasSubstr("bad.jsonl:1"), HasSubstr(message))))
        << line.substr(0, 40);
  }
}

TEST(TextRecords, PairsHaveTwoColumns) {
  const auto pairs = Texts({WriteDataFile("p.tsv", "in\tout\n\tx\na\tb\tc\nd")},
                           {.format = TextFormat::kPairs, .eos = true});
  ASSERT_EQ(pairs->size(), 4);
  EXPECT_THAT(pairs->Read(0)->tokens, ElementsAre('i', 'n', 256));
  EXPECT_THAT(pairs->Read(0)->targets, ElementsAre('o', 'u', 't', 256));
  EXPECT_THAT(pairs->Read(1)->tokens, ElementsAre(256));
  EXPECT_THAT(pairs->Read(2), StatusIs(absl::StatusCode::kDataLoss,
                                       HasSubstr("it has 3 columns")));
  EXPECT_THAT(pairs->Read(3), StatusIs(absl::StatusCode::kDataLoss,
                                       HasSubstr("it has 1 column,")));
}

TEST(TextRecords, InvalidUtf8IsABadRecordUnlessItMayBe) {
  const std::string path = WriteDataFile("u.txt", "ok\nab\xc3(\n");
  EXPECT_THAT(Texts({path})->Read(1),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("u.txt:2: byte 2 is not valid UTF-8")));
  EXPECT_OK(Texts({path}, {.utf8 = false})->Read(1));
}

TEST(TextRecords, ErrorsOfOpening) {
  EXPECT_THAT(
      OpenTextRecords({"/no/file"}, std::make_shared<const ByteTokenizer>()),
      StatusIs(absl::StatusCode::kNotFound,
               HasSubstr("cannot read text \"/no/file\"")));
  EXPECT_THAT(OpenTextRecords({}, std::make_shared<const ByteTokenizer>(),
                              {.bos = true}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no token for the beginning of a text")));
}

// The code points that a decoder by the tables of RFC 3629 accepts, for every
// sequence of up to three bytes.
bool IsUtf8ByDecoding(const std::string& text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t j) { return static_cast<uint8_t>(text[j]); };
    int length = 1;
    int32_t point = byte(i);
    if (point >= 0xf0 && point < 0xf8) {
      length = 4;
      point &= 0x07;
    } else if (point >= 0xe0 && point < 0xf0) {
      length = 3;
      point &= 0x0f;
    } else if (point >= 0xc0 && point < 0xe0) {
      length = 2;
      point &= 0x1f;
    } else if (point >= 0x80) {
      return false;
    }
    if (i + length > text.size()) return false;
    for (int j = 1; j < length; ++j) {
      if (byte(i + j) >> 6 != 2) return false;
      point = point << 6 | (byte(i + j) & 0x3f);
    }
    constexpr int32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < kLeast[length] || point > 0x10ffff) return false;
    if (point >= 0xd800 && point < 0xe000) return false;
    i += length;
  }
  return true;
}

TEST(FirstInvalidUtf8, AgreesWithADecoder) {
  const std::string interesting(
      "\x00\x41\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee"
      "\xef\xf0\xf1\xf3\xf4\xf5\xf7\xf8\xff",
      27);
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == 4) break;
    for (const char byte : interesting) texts.push_back(texts[i] + byte);
  }
  ASSERT_GT(texts.size(), 500000);
  for (const std::string& text : texts) {
    const size_t invalid = FirstInvalidUtf8(text);
    ASSERT_EQ(invalid == absl::string_view::npos, IsUtf8ByDecoding(text));
    if (invalid != absl::string_view::npos) {
      ASSERT_TRUE(IsUtf8ByDecoding(text.substr(0, invalid)));
    }
  }
}

}  // namespace
}  // namespace mtf::train
