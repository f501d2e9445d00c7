// SPDX-License-Identifier: Apache-2.0
//
// Ids and decoded texts equal those of the reference packages.
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/train/tokenizers/tokenizer_files.h"
#include "train/tokenizers/json_value.h"
#include "train/tokenizers/open_tokenizer.h"

namespace mtf::train {
namespace {

using ::mtf::testing::CaseTexts;
using ::mtf::testing::OpenFixture;
using ::mtf::testing::ReadBytes;
using ::mtf::testing::TokenizerPath;

struct ReferenceCase {
  std::string file;   // of the tokenizer
  std::string cases;  // what the reference gives
};

std::ostream& operator<<(std::ostream& out, const ReferenceCase& c) {
  return out << c.file;
}

std::vector<int32_t> Numbers(const JsonValue& json) {
  std::vector<int32_t> numbers;
  const auto elements = json.Elements();
  EXPECT_OK(elements);
  for (const JsonValue& element : *elements) {
    numbers.push_back(static_cast<int32_t>(*element.Integer()));
  }
  return numbers;
}

class ReferenceIds : public ::testing::TestWithParam<ReferenceCase> {
 protected:
  // Line 0 has the special tokens at the ends, line i + 1 the case of text i.
  std::vector<JsonValue> Cases() {
    std::vector<JsonValue> cases;
    const std::string path = TokenizerPath(GetParam().cases);
    const std::string text = ReadBytes(path);
    for (absl::string_view line :
         absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      cases.push_back(*JsonValue::Parse(line, path));
    }
    return cases;
  }
};

TEST_P(ReferenceIds, EncodeAndDecodeAsTheReference) {
  const auto tokenizer = OpenFixture(GetParam().file);
  ASSERT_NE(tokenizer, nullptr);
  const std::vector<JsonValue> cases = Cases();
  const std::vector<std::string> texts = CaseTexts();
  ASSERT_EQ(cases.size(), texts.size() + 1);
  for (size_t i = 0; i < texts.size(); ++i) {
    SCOPED_TRACE(texts[i]);
    const JsonValue& expected = cases[i + 1];
    const std::vector<int32_t> ids = Numbers(expected["ids"]);
    const auto encoded = tokenizer->Encode(texts[i]);
    ASSERT_OK(encoded);
    EXPECT_EQ(*encoded, ids);
    const auto decoded = tokenizer->Decode(ids);
    ASSERT_OK(decoded);
    EXPECT_EQ(*decoded, *expected.String("text", texts[i]));

    std::vector<int32_t> with_ends = Numbers(cases[0]["before"]);
    with_ends.insert(with_ends.end(), ids.begin(), ids.end());
    const std::vector<int32_t> after = Numbers(cases[0]["after"]);
    with_ends.insert(with_ends.end(), after.begin(), after.end());
    EXPECT_EQ(*tokenizer->EncodeWith({.special_ends = true}, texts[i]),
              with_ends);
    EXPECT_EQ(*tokenizer->Decode(with_ends), *decoded);
  }
}

// Encoding is const: threads share a tokenizer, and what one remembers does not
// change the ids of another.
TEST_P(ReferenceIds, ThreadsShareATokenizer) {
  const auto tokenizer = OpenFixture(GetParam().file);
  ASSERT_NE(tokenizer, nullptr);
  const std::vector<std::string> texts = CaseTexts();
  std::vector<std::vector<int32_t>> alone;
  for (const std::string& text : texts) {
    alone.push_back(*tokenizer->Encode(text));
  }
  std::vector<int> differences(3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 3 * texts.size(); ++i) {
        const size_t at = (i * (t + 1) + t) % texts.size();
        if (*tokenizer->Encode(texts[at]) != alone[at]) ++differences[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(differences, std::vector<int>(3));
}

TEST_P(ReferenceIds, BlocksOfLinesGiveTheIdsOfTheWholeText) {
  const auto tokenizer = OpenFixture(GetParam().file);
  ASSERT_NE(tokenizer, nullptr);
  if (!tokenizer->SplitsAtLineBreaks()) {
    GTEST_SKIP() << "its ids depend on the whole text";
  }
  const std::vector<std::string> texts = CaseTexts();
  std::vector<int32_t> joined;
  std::string all;
  for (const std::string& text : texts) {
    const std::string line = absl::StrCat("x", text, "\n");
    const std::vector<int32_t> ids = *tokenizer->Encode(line);
    joined.insert(joined.end(), ids.begin(), ids.end());
    absl::StrAppend(&all, line);
  }
  EXPECT_EQ(*tokenizer->Encode(all), joined);
}

INSTANTIATE_TEST_SUITE_P(Files, ReferenceIds,
                         ::testing::ValuesIn(std::vector<ReferenceCase>{
                             {"gpt2.json", "gpt2.cases.json"},
                             {"gpt2", "gpt2.cases.json"},
                             {"llama3.json", "llama3.cases.json"},
                             {"bert.json", "bert.cases.json"},
                             {"bert", "bert.cases.json"},
                             {"llama2.json", "llama2.cases.json"},
                             {"other.json", "other.cases.json"},
                             {"t5.model", "t5.cases.json"},
                             {"llama2_model.model",
                              "llama2_model.cases.json"}}));

TEST(ReferenceTokenizers, SpecialTokensOfATextAreFoundOnRequestOnly) {
  const auto gpt2 = OpenFixture("gpt2.json");
  ASSERT_NE(gpt2, nullptr);
  const std::string text = "a<|endoftext|>b";
  const int32_t end = gpt2->special_tokens().eos;
  ASSERT_NE(end, SpecialTokens::kNone);
  EXPECT_THAT(*gpt2->Encode(text), ::testing::Not(::testing::Contains(end)));
  const auto ids = gpt2->EncodeWith({.special_in_text = true}, text);
  ASSERT_OK(ids);
  ASSERT_EQ(ids->size(), 3u);
  EXPECT_EQ((*ids)[1], end);
  EXPECT_EQ(*gpt2->Decode(*ids), "ab");
}

TEST(ReferenceTokenizers, SpecialTokensHaveTheirMeaning) {
  const SpecialTokens bert = OpenFixture("bert.json")->special_tokens();
  EXPECT_EQ(bert.pad, 0);
  EXPECT_EQ(bert.unk, 1);
  EXPECT_EQ(bert.bos, 2);
  EXPECT_EQ(bert.eos, 3);
  EXPECT_EQ(bert.mask, 4);
  const SpecialTokens t5 = OpenFixture("t5.model")->special_tokens();
  EXPECT_EQ(t5.pad, 0);
  EXPECT_EQ(t5.eos, 1);
  EXPECT_EQ(t5.unk, 2);
  EXPECT_EQ(t5.bos, SpecialTokens::kNone);
}

TEST(ReferenceTokenizers, InvalidUtf8IsReplaced) {
  for (const char* name : {"gpt2.json", "bert.json", "llama2.json", "t5.model",
                           "llama2_model.model"}) {
    const auto tokenizer = OpenFixture(name);
    ASSERT_NE(tokenizer, nullptr);
    const std::string mark = "\xEF\xBF\xBD";
    EXPECT_EQ(*tokenizer->Encode("a\xE2\x82(\xFF\xC0\x80z\xF0\x9F"),
              *tokenizer->Encode(
                  absl::StrCat("a", mark, "(", mark, mark, mark, "z", mark)));
  }
}

TEST(ReferenceTokenizers, DecodeRejectsIdsOutsideOfTheVocabulary) {
  for (const char* name : {"gpt2.json", "bert.json", "t5.model"}) {
    const auto tokenizer = OpenFixture(name);
    ASSERT_NE(tokenizer, nullptr);
    const auto size = static_cast<int32_t>(tokenizer->vocabulary_size());
    for (const int32_t id : {-1, size, INT32_MAX}) {
      EXPECT_THAT(tokenizer->Decode({0, id}),
                  testing::StatusIs(
                      absl::StatusCode::kOutOfRange,
                      ::testing::HasSubstr(absl::StrCat("token 1 is ", id))));
    }
  }
}

}  // namespace
}  // namespace mtf::train
