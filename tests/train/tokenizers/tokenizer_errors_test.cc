// SPDX-License-Identifier: Apache-2.0
//
// Files that are wrong, and texts that are long.
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/requirements.h"
#include "tests/run_command.h"
#include "tests/train/tokenizers/tokenizer_files.h"
#include "train/tokenizers/open_tokenizer.h"
#include "train/tokenizers/split_pattern.h"

namespace mtf::train {
namespace {

using ::mtf::testing::OpenFixture;
using ::mtf::testing::ReadBytes;
using ::mtf::testing::StatusIs;
using ::mtf::testing::Temporary;
using ::mtf::testing::ThoroughTests;
using ::mtf::testing::TokenizerPath;
using ::testing::AllOf;
using ::testing::HasSubstr;

void WriteBytes(const std::string& path, absl::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.flush()) << path;
}

// A folder with the files of a tokenizer, removed by the destructor.
class TokenizerFolder {
 public:
  TokenizerFolder() : path_(Temporary("tokenizer_folder")) {
    mkdir(path_.c_str(), 0700);
  }
  ~TokenizerFolder() {
    for (const std::string& file : files_) std::remove(file.c_str());
    std::remove(path_.c_str());
  }
  std::string Add(const std::string& name, absl::string_view bytes) {
    files_.push_back(absl::StrCat(path_, "/", name));
    WriteBytes(files_.back(), bytes);
    return files_.back();
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

// A change of a good file and the error that it must cause.
struct WrongFile {
  std::string name;
  std::string fixture;
  std::string from, to;
  absl::StatusCode code;
  std::string message;
};

std::ostream& operator<<(std::ostream& out, const WrongFile& wrong) {
  return out << wrong.name;
}

class WrongTokenizerFile : public ::testing::TestWithParam<WrongFile> {};

TEST_P(WrongTokenizerFile, IsAnErrorThatNamesFileAndKey) {
  const WrongFile& wrong = GetParam();
  const std::string good = ReadBytes(TokenizerPath(wrong.fixture));
  const std::string bad = absl::StrReplaceAll(good, {{wrong.from, wrong.to}});
  ASSERT_NE(bad, good) << "nothing was replaced";
  TokenizerFolder folder;
  const std::string path = folder.Add("tokenizer.json", bad);
  EXPECT_THAT(OpenTokenizer(folder.path()),
              StatusIs(wrong.code,
                       AllOf(HasSubstr("tokenizer.json"),
                             HasSubstr(wrong.message), HasSubstr("\n  help"))));
}

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kLacking = absl::StatusCode::kUnimplemented;

INSTANTIATE_TEST_SUITE_P(
    Files, WrongTokenizerFile,
    ::testing::ValuesIn(std::vector<WrongFile>{
        {"not_json", "gpt2.json", "\"merges\":[", "\"merges\":[,", kInvalid,
         "is not JSON from line 1 on"},
        {"no_model", "gpt2.json", "\"model\":", "\"Model\":", kLacking,
         "key \"Model\" of"},
        {"other_model", "gpt2.json", "\"type\":\"BPE\"", "\"type\":\"Unigram\"",
         kLacking, "spiece.model"},
        {"dropout", "gpt2.json", "\"dropout\":null", "\"dropout\":0.1",
         kLacking, "key \"model.dropout\""},
        {"truncation", "bert.json", "\"truncation\":null",
         "\"truncation\":{\"max_length\":512}", kLacking, "key \"truncation\""},
        {"normalizer", "llama2.json", "\"type\":\"Prepend\"",
         "\"type\":\"Precompiled\"", kLacking,
         "key \"normalizer.normalizers[0].type\""},
        {"pre_tokenizer", "other.json", "\"type\":\"Digits\"",
         "\"type\":\"UnicodeScripts\"", kLacking,
         "key \"pre_tokenizer.pretokenizers[1].type\""},
        {"new_option", "bert.json", "\"clean_text\":true",
         "\"clean_text\":true,\"fold\":true", kLacking,
         "key \"normalizer.fold\""},
        {"wrong_type", "bert.json", "\"lowercase\":true", "\"lowercase\":1",
         kInvalid, "is a value of type number, not true or false"},
        {"decoder", "llama2.json", "\"type\":\"Fuse\"", "\"type\":\"CTC\"",
         kLacking, "key \"decoder.decoders[2].type\""},
        {"post_processor", "bert.json", "\"type\":\"TemplateProcessing\"",
         "\"type\":\"Other\"", kLacking, "key \"post_processor.type\""},
        {"pattern", "llama3.json", "(?i:'s|", "(?i:('s|", kInvalid,
         "is not a regular expression"},
        {"pattern_syntax", "llama3.json", "(?i:'s|", "(?m:'s|", kLacking,
         "which is not supported"},
        {"merge", "gpt2.json", "[\"t\",\"h\"]", "[\"t\",\"hhhh\"]", kInvalid,
         "which is not in the vocabulary"},
        {"same_id", "bert.json", "\"[CLS]\":2,", "\"[CLS]\":3,", kInvalid,
         "has the id 3"},
        {"large_id", "bert.json", "\"[CLS]\":2,", "\"[CLS]\":2000000000,",
         kInvalid, "key \"model.vocab.[CLS]\""},
        {"negative_id", "bert.json", "\"[CLS]\":2,", "\"[CLS]\":-1,", kInvalid,
         "has the id -1"},
        {"unknown_token", "bert.json", "\"unk_token\":\"[UNK]\"",
         "\"unk_token\":\"[NONE]\"", kInvalid, "key \"model.unk_token\""}}),
    [](const auto& info) { return info.param.name; });

TEST(WrongTokenizerPath, IsAnErrorWithAWayOut) {
  EXPECT_THAT(
      OpenTokenizer("/no/such/folder"),
      StatusIs(absl::StatusCode::kNotFound,
               AllOf(HasSubstr("/no/such/folder"), HasSubstr("bytes"))));
  TokenizerFolder folder;
  EXPECT_THAT(
      OpenTokenizer(folder.path()),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("has no tokenizer")));
  const std::string vocab = folder.Add("vocab.json", "{\"a\": 0}");
  EXPECT_THAT(OpenTokenizer(folder.path()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("merges.txt")));
  folder.Add("merges.txt", "#version: 0.2\na b c\n");
  EXPECT_THAT(
      OpenTokenizer(vocab),
      StatusIs(kInvalid, AllOf(HasSubstr("line 2"), HasSubstr("merges.txt"))));
  EXPECT_THAT(OpenTokenizer(folder.Add("some.bin", "x")),
              StatusIs(kInvalid, HasSubstr("does not say what it is")));
  EXPECT_THAT(
      OpenTokenizer(folder.Add("x.model", "no model")),
      StatusIs(kInvalid, HasSubstr("x.model\" is not a SentencePiece model")));
}

TEST(WrongTokenizerPath, MissingBytesAreAnErrorOfTheText) {
  TokenizerFolder folder;
  folder.Add("vocab.json", "{\"a\": 0, \"b\": 1, \"ab\": 2}");
  folder.Add("merges.txt", "a b\n");
  const auto tokenizer = OpenTokenizer(folder.path());
  ASSERT_OK(tokenizer);
  EXPECT_THAT(*(*tokenizer)->Encode("abab"), ::testing::ElementsAre(2, 2));
  EXPECT_THAT((*tokenizer)->Encode("abc"),
              StatusIs(kInvalid, HasSubstr("no token for the byte 99")));
}

// Flips, removes, repeats and exchanges stretches of a file.
std::string Mutate(std::string bytes, std::mt19937& random) {
  const auto below = [&](size_t n) {
    return random() % std::max<size_t>(n, 1);
  };
  const int changes = 1 + static_cast<int>(below(3));
  for (int i = 0; i < changes && !bytes.empty(); ++i) {
    const size_t at = below(bytes.size());
    const size_t length = std::min(bytes.size() - at, 1 + below(12));
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(below(bytes.size()), length));
        break;
      case 3:
        bytes.replace(at, length, bytes.substr(below(bytes.size()), length));
        break;
      case 4:
        bytes.insert(at, std::string(1, "\"[]{}:,0-9e\\un\n "[below(16)]));
        break;
      default:
        bytes.resize(below(8) == 0 ? at : bytes.size());
        break;
    }
  }
  return bytes;
}

// A tokenizer that opens must work; one that does not must say why.
void TryMutations(const std::string& fixture, const std::string& name,
                  const std::vector<std::string>& others, int count) {
  const std::string good = ReadBytes(TokenizerPath(fixture));
  std::mt19937 random(static_cast<unsigned>(good.size()));
  TokenizerFolder folder;
  for (const std::string& other : others) {
    folder.Add(other.substr(other.rfind('/') + 1),
               ReadBytes(TokenizerPath(other)));
  }
  const std::string path = folder.Add(name, good);
  int opened = 0;
  for (int i = 0; i < count; ++i) {
    WriteBytes(path, Mutate(good, random));
    const auto tokenizer = OpenTokenizer(path);
    if (!tokenizer.ok()) {
      EXPECT_THAT(std::string(tokenizer.status().message()),
                  AllOf(HasSubstr(folder.path()), HasSubstr("\n  help")));
      continue;
    }
    ++opened;
    const auto ids =
        (*tokenizer)
            ->EncodeWith({.special_ends = true},
                         "In the  beginning\n<unk> \xC3\xA9\xF0\x9F");
    if (!ids.ok()) continue;
    for (const int32_t id : *ids) {
      ASSERT_GE(id, 0);
      ASSERT_LT(id, (*tokenizer)->vocabulary_size());
    }
    EXPECT_OK((*tokenizer)->Decode(*ids));
  }
  // Most changes are within names of tokens.
  if (count > 200) {
    EXPECT_GT(opened, 0);
  }
  EXPECT_LT(opened, count);
}

int Mutations() { return ThoroughTests() ? 2000 / 7 : 200 / 7; }

TEST(MutatedTokenizer, JsonOfGpt2) {
  TryMutations("gpt2.json", "tokenizer.json", {}, Mutations());
}
TEST(MutatedTokenizer, JsonOfLlama2) {
  TryMutations("llama2.json", "tokenizer.json", {}, Mutations());
}
TEST(MutatedTokenizer, JsonOfBert) {
  TryMutations("bert.json", "tokenizer.json", {}, Mutations());
}
TEST(MutatedTokenizer, JsonOfOtherSteps) {
  TryMutations("other.json", "tokenizer.json", {}, Mutations());
}
TEST(MutatedTokenizer, VocabJson) {
  TryMutations("gpt2/vocab.json", "vocab.json", {"gpt2/merges.txt"},
               Mutations());
}
TEST(MutatedTokenizer, MergesTxt) {
  TryMutations("gpt2/merges.txt", "merges.txt", {"gpt2/vocab.json"},
               Mutations());
}
TEST(MutatedTokenizer, VocabTxt) {
  TryMutations("bert/vocab.txt", "vocab.txt", {}, Mutations());
}

TEST(LongTexts, AWordWithoutBlanksTakesNoQuadraticTime) {
  // A word of a megabyte in quadratic time would take minutes.
  std::mt19937 random(5);
  std::string word;
  for (int i = 0; i < 1 << 20; ++i) {
    word.push_back(static_cast<char>('a' + random() % 26));
  }
  for (const char* name :
       {"gpt2.json", "llama3.json", "llama2.json", "bert.json", "other.json"}) {
    const auto tokenizer = OpenFixture(name);
    ASSERT_NE(tokenizer, nullptr);
    const auto ids = tokenizer->Encode(word);
    ASSERT_OK(ids);
    if (absl::StartsWith(name, "bert")) {
      EXPECT_EQ(ids->size(), 1u);  // one unknown token
    } else {
      EXPECT_GT(ids->size(), word.size() / 8);
    }
  }
}

TEST(LongTexts, MegabytesOfWhiteSpaceAndPunctuationAreSplit) {
  for (const char* unit : {" ", "\n", " \n", ".", "'s", "\t "}) {
    std::string text;
    while (text.size() < 1 << 20) text.append(unit);
    for (const char* name : {"gpt2.json", "llama3.json", "bert.json"}) {
      const auto tokenizer = OpenFixture(name);
      ASSERT_NE(tokenizer, nullptr);
      EXPECT_OK(tokenizer->Encode(absl::StrCat(text, "a")));
    }
  }
}

TEST(SplitPattern, ARunawayPatternIsAnError) {
  const auto pattern = SplitPattern::Compile("(a|aa|a+)+$");
  ASSERT_OK(pattern);
  std::vector<TextRange> matches;
  const std::string text = std::string(4000, 'a') + "!";
  EXPECT_THAT(pattern->FindAll(text, {0, 4001}, matches),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("cannot split")));
}

TEST(SplitPattern, ClassesAreThoseOfOniguruma) {
  EXPECT_EQ(*TranslatePattern(R"(\s+(?!\S)|[^\s\p{Han}])"),
            R"([\t-\r\x{85}\p{Z}]+(?![^\t-\r\x{85}\p{Z}])|)"
            R"([^\t-\r\x{85}\p{Z}\p{sc:Han}])");
  for (const char* pattern : {R"(\b)", R"([a&&b])", R"([[:alpha:]])", R"(\h)",
                              R"((?m:a))", R"([\S])", R"(\G)"}) {
    EXPECT_THAT(TranslatePattern(pattern),
                StatusIs(kLacking, HasSubstr("not supported")))
        << pattern;
  }
}

}  // namespace
}  // namespace mtf::train
