// SPDX-License-Identifier: Apache-2.0
//
// Files of tokens that mtf tokenize writes.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/tools/run_mtf.h"
#include "tools/tokenize_file.h"
#include "train/tokenizers/byte_tokenizer.h"
#include "train/tokenizers/open_tokenizer.h"

namespace mtf::tools {
namespace {

using ::mtf::testing::File;
using ::mtf::testing::ReadText;
using ::mtf::testing::StatusIs;
using ::mtf::testing::Temporary;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string FixturePath(const std::string& name) {
  return absl::StrCat(GOLDEN_DIR, "/../fixtures/tokenizer_cases/", name);
}

uint32_t NumberAt(const std::string& bytes, size_t at, int size) {
  uint32_t number = 0;
  std::memcpy(&number, bytes.data() + at, size);
  return number;
}

// The tokens of a file whose header must be right.
std::vector<int32_t> ReadTokens(const std::string& path, int token_bytes) {
  const std::string bytes = ReadText(path);
  EXPECT_GE(bytes.size(), 1024u);
  EXPECT_EQ(NumberAt(bytes, 0, 4), token_bytes == 2 ? 20240520u : 20240801u);
  EXPECT_EQ(NumberAt(bytes, 4, 4), token_bytes == 2 ? 1u : 7u);
  EXPECT_EQ(NumberAt(bytes, 8, 4), (bytes.size() - 1024) / token_bytes);
  std::vector<int32_t> tokens;
  for (size_t at = 1024; at < bytes.size(); at += token_bytes) {
    tokens.push_back(static_cast<int32_t>(NumberAt(bytes, at, token_bytes)));
  }
  return tokens;
}

std::vector<int32_t> TokenizeText(const train::Tokenizer& tokenizer,
                                  const std::string& text,
                                  const TokenizeOptions& options) {
  const File input("text.txt", text);
  const std::string output = Temporary("tokens.bin");
  const auto result = TokenizeFile(tokenizer, input.path(), output, options);
  EXPECT_OK(result);
  const std::vector<int32_t> tokens = ReadTokens(output, 2);
  EXPECT_EQ(result->tokens, static_cast<int64_t>(tokens.size()));
  EXPECT_EQ(result->text_bytes, static_cast<int64_t>(text.size()));
  std::remove(output.c_str());
  return tokens;
}

TEST(TokenizeFile, DocumentsEndWithTheEndOfText) {
  const train::ByteTokenizer bytes;
  const std::string text = "a\n\nb\r\n\r\nc\nd";
  constexpr int32_t kEnd = train::ByteTokenizer::kEndOfText;
  TokenizeOptions options;
  options.document = DocumentKind::kLine;
  EXPECT_THAT(TokenizeText(bytes, text, options),
              ElementsAre('a', kEnd, 'b', kEnd, 'c', kEnd, 'd', kEnd));
  options.document = DocumentKind::kBlankLine;
  EXPECT_THAT(TokenizeText(bytes, text, options),
              ElementsAre('a', kEnd, 'b', kEnd, 'c', '\n', 'd', kEnd));
  options.special_ends = false;
  EXPECT_THAT(TokenizeText(bytes, text, options),
              ElementsAre('a', 'b', 'c', '\n', 'd'));
}

TEST(TokenizeFile, BlocksDoNotChangeTheTokens) {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    absl::StrAppend(&text, "In the  beginning ", i, " \xC3\xA9t\xC3\xA9,\n",
                    i % 7 == 0 ? "\n  " : "", i % 5 == 0 ? "\xC3\xA9\n" : "");
  }
  for (const char* name : {"gpt2.json", "llama3.json", "bert.json",
                           "llama2.json", "t5.model", "llama2_model.model"}) {
    const auto tokenizer = train::OpenTokenizer(FixturePath(name));
    ASSERT_OK(tokenizer);
    std::vector<int32_t> whole =
        *(*tokenizer)->EncodeWith({.special_ends = true}, text);
    const std::vector<int32_t> ends =
        *(*tokenizer)->EncodeWith({.special_ends = true}, "");
    if (ends.empty()) whole.push_back((*tokenizer)->special_tokens().eos);
    for (const int block : {100, 1000, 1 << 20}) {
      TokenizeOptions options;
      options.block_bytes = block;
      EXPECT_EQ(TokenizeText(**tokenizer, text, options), whole)
          << name << " in blocks of " << block;
    }
  }
}

// A vocabulary too large for 16 bits.
class WideTokenizer final : public train::Tokenizer {
 public:
  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const override {
    if (text == "bad") return absl::InvalidArgumentError("no ids");
    return std::vector<int32_t>(text.size(), 70000);
  }
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t>) const override {
    return "";
  }
  int64_t vocabulary_size() const override { return 100000; }
  train::SpecialTokens special_tokens() const override { return {}; }
};

TEST(TokenizeFile, LargeVocabulariesTake32Bits) {
  const File input("wide.txt", "abc");
  const std::string output = Temporary("wide.bin");
  ASSERT_OK(TokenizeFile(WideTokenizer(), input.path(), output, {}));
  EXPECT_THAT(ReadTokens(output, 4), ElementsAre(70000, 70000, 70000));
  std::remove(output.c_str());
}

TEST(TokenizeFile, ErrorsLeaveNoOutput) {
  const File input("bad.txt", "good\nbad\n");
  const std::string output = Temporary("bad.bin");
  TokenizeOptions options;
  options.document = DocumentKind::kLine;
  EXPECT_THAT(TokenizeFile(WideTokenizer(), input.path(), output, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("document 1: no ids")));
  EXPECT_EQ(std::fopen(output.c_str(), "rb"), nullptr);
  EXPECT_THAT(TokenizeFile(WideTokenizer(), "/no/file", output, options),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("--input")));
  EXPECT_THAT(
      ParseDocumentKind("page"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("blank_line")));
}

}  // namespace
}  // namespace mtf::tools
