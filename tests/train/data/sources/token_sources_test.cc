// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/train/data/data_files.h"
#include "train/data/sources/mapped_file.h"
#include "train/data/sources/megatron_tokens.h"
#include "train/data/sources/synthetic_tokens.h"
#include "train/data/sources/token_files.h"
#include "train/data/sources/token_windows.h"

namespace mtf::train {
namespace {

using ::mtf::testing::LlmcFile;
using ::mtf::testing::MegatronIndex;
using ::mtf::testing::StatusIs;
using ::mtf::testing::TokenBytesOf;
using ::mtf::testing::WriteDataFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kVocabulary = 100000;

absl::StatusOr<std::vector<int32_t>> ReadTokens(const TokenStream& stream,
                                                int64_t begin, int64_t count) {
  std::vector<int32_t> tokens(count);
  const absl::Status status = stream.Read(begin, absl::MakeSpan(tokens));
  if (!status.ok()) return status;
  return tokens;
}

TEST(DataFiles, ListsAndPatternsAreExpanded) {
  const std::string a = WriteDataFile("shard_1.bin", "aa"),
                    b = WriteDataFile("shard_2.bin", "bb"),
                    c = WriteDataFile("other.bin", "cc");
  const std::string pattern = a.substr(0, a.size() - 5) + "?.bin";
  const auto files = DataFiles(c + " ," + pattern);
  ASSERT_OK(files);
  EXPECT_THAT(*files, ElementsAre(c, a, b));
  EXPECT_THAT(DataFiles(a + "," + pattern),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("shard_1.bin\" is listed twice")));
  EXPECT_THAT(DataFiles("/no/such/*.bin"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("no file matches \"/no/such/*.bin\"")));
  EXPECT_THAT(DataFiles(" , "), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("no data files")));
}

TEST(MappedFile, OnlyRegularFilesAreRead) {
  EXPECT_EQ((*MappedFile::Open(WriteDataFile("x", "abc"), "text"))->bytes(),
            "abc");
  EXPECT_EQ((*MappedFile::Open(WriteDataFile("e", ""), "text"))->bytes(), "");
  EXPECT_THAT(MappedFile::Open("/no/such/file", "tokens"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("cannot read tokens \"/no/such/file\": No "
                                 "such file")));
  for (const char* path : {"/dev/null", "/tmp"}) {
    EXPECT_THAT(MappedFile::Open(path, "tokens"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("not a regular file")));
  }
}

TEST(TokenFiles, SeveralKindsOfFilesAreOneStream) {
  const std::vector<std::string> files = {
      WriteDataFile("raw.bin", TokenBytesOf({1, 256, 50256}, 2)),
      WriteDataFile("gpt2.bin", LlmcFile({7, 8}, 20240520, 1, 2)),
      WriteDataFile("empty.bin", ""),
      WriteDataFile("llama.bin", LlmcFile({99999, 3, 4}, 20240801, 7, 4))};
  const auto tokens = TokenFiles::Open(files, {kVocabulary});
  ASSERT_OK(tokens);
  ASSERT_EQ((*tokens)->size(), 8);
  const std::vector<int32_t> all = {1, 256, 50256, 7, 8, 99999, 3, 4};
  // Every range, so also those across the ends of files.
  for (int64_t begin = 0; begin <= 8; ++begin) {
    for (int64_t end = begin; end <= 8; ++end) {
      const auto read = ReadTokens(**tokens, begin, end - begin);
      ASSERT_OK(read);
      EXPECT_EQ(*read,
                std::vector<int32_t>(all.begin() + begin, all.begin() + end));
    }
  }
  EXPECT_THAT((*tokens)->name(), HasSubstr("raw.bin\" with 3 more"));
}

TEST(TokenFiles, WideTokensWithoutAHeader) {
  const auto tokens =
      TokenFiles::Open({WriteDataFile("wide.bin", TokenBytesOf({70000, 1}, 4))},
                       {kVocabulary, TokenType::kUint32});
  ASSERT_OK(tokens);
  EXPECT_THAT(*ReadTokens(**tokens, 0, 2), ElementsAre(70000, 1));
}

TEST(TokenFiles, ATokenBeyondTheVocabularyIsNamed) {
  const auto tokens = TokenFiles::Open(
      {WriteDataFile("wide.bin", TokenBytesOf({5, 6, 256}, 2))}, {256});
  ASSERT_OK(tokens);
  EXPECT_OK(ReadTokens(**tokens, 0, 2));
  EXPECT_THAT(ReadTokens(**tokens, 1, 2),
              StatusIs(absl::StatusCode::kDataLoss,
                       ::testing::AllOf(HasSubstr("token 2 of file"),
                                        HasSubstr("wide.bin"),
                                        HasSubstr("is 256, but the vocabulary "
                                                  "has 256 tokens"))));
  // 2^31 + 1 is not a negative number.
  const auto large = TokenFiles::Open(
      {WriteDataFile("l.bin", LlmcFile({2147483649, 1}, 20240801, 7, 4))},
      {kVocabulary});
  EXPECT_THAT(ReadTokens(**large, 0, 1),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("2147483649")));
}

TEST(TokenFiles, HeadersAreChecked) {
  const auto opened = [](const std::string& bytes) {
    return TokenFiles::Open({WriteDataFile("bad.bin", bytes)}, {kVocabulary});
  };
  EXPECT_THAT(opened(LlmcFile({1, 2}, 20240520, 2, 2)),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("has version 2, but only 1 is known")));
  EXPECT_THAT(opened(LlmcFile({1, 2}, 20240801, 1, 4)),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("has version 1, but only 7 is known")));
  for (const int64_t count : {0, 1, 3, 1 << 30}) {
    EXPECT_THAT(opened(LlmcFile({1, 2}, 20240520, 1, 2, count)),
                StatusIs(absl::StatusCode::kDataLoss,
                         HasSubstr("tokens of 2 bytes after 1024, but has "
                                   "1028 bytes")));
  }
  EXPECT_THAT(opened("abc"), StatusIs(absl::StatusCode::kDataLoss,
                                      HasSubstr("3 bytes, not a multiple")));
  EXPECT_THAT(opened(TokenBytesOf({1}, 2)),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("has 1 token, but needs at least 2")));
  EXPECT_THAT(TokenFiles::Open({WriteDataFile("ok.bin", "abcd")}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a vocabulary of 0 tokens")));
}

// Opening reads nothing: a file of 5 GiB that takes no space on the disk.
TEST(TokenFiles, AFileOfFiveGibibytesOpensAtOnce) {
  const std::string path = WriteDataFile("sparse.bin", "");
  constexpr int64_t kBytes = int64_t{5} << 30;
  const int file = open(path.c_str(), O_WRONLY);
  ASSERT_GE(file, 0);
  const bool sparse = ftruncate(file, kBytes) == 0 &&
                      pwrite(file, "\x07\x00", 2, kBytes - 2) == 2;
  close(file);
  if (!sparse) {
    unlink(path.c_str());
    GTEST_SKIP() << "the file system has no sparse files of 5 GiB";
  }
  const auto tokens = TokenFiles::Open({path}, {kVocabulary});
  ASSERT_OK(tokens);
  EXPECT_EQ((*tokens)->size(), kBytes / 2);
  EXPECT_THAT(*ReadTokens(**tokens, kBytes / 2 - 2, 2), ElementsAre(0, 7));
  const auto windows = TokenWindows::Create(*tokens, 1024);
  EXPECT_EQ((*windows)->size(), (kBytes / 2 - 1) / 1024);
  EXPECT_OK((*windows)->Read((*windows)->size() - 1));
  unlink(path.c_str());
}

TEST(TokenWindows, EachTokenIsOneTarget) {
  for (const int64_t size : {9, 10, 11, 12, 13}) {
    const auto stream = std::make_shared<testing::CountingStream>(size);
    const auto windows = TokenWindows::Create(stream, 4);
    ASSERT_OK(windows);
    std::vector<int32_t> targets;
    for (int64_t i = 0; i < (*windows)->size(); ++i) {
      const auto record = (*windows)->Read(i);
      ASSERT_OK(record);
      ASSERT_EQ(record->tokens.size(), 5);
      for (int j = 0; j < 5; ++j) EXPECT_EQ(record->tokens[j], 4 * i + j);
      targets.insert(targets.end(), record->tokens.begin() + 1,
                     record->tokens.end());
    }
    ASSERT_EQ(targets.size(), (size - 1) / 4 * 4);
    for (size_t i = 0; i < targets.size(); ++i) EXPECT_EQ(targets[i], i + 1);
  }
  EXPECT_THAT(
      TokenWindows::Create(std::make_shared<testing::CountingStream>(4), 4),
      StatusIs(absl::StatusCode::kOutOfRange,
               HasSubstr("numbers has 4 tokens, but a window of length 4 "
                         "needs 5")));
}

class MegatronFiles : public ::testing::Test {
 protected:
  // Opens NAME.bin and NAME.idx of these bytes.
  static absl::StatusOr<std::shared_ptr<const MegatronTokens>> Opened(
      const std::string& index, const std::string& tokens) {
    WriteDataFile("mega.idx", index);
    const std::string path = WriteDataFile("mega.bin", tokens);
    return MegatronTokens::Open(path.substr(0, path.size() - 4), kVocabulary);
  }
};

TEST_F(MegatronFiles, DocumentsAreTheirSequences) {
  // Types by code: 8 is u16, 4 is i32, 5 is i64.
  for (const auto& [code, bytes] :
       std::vector<std::pair<int, int>>{{8, 2}, {4, 4}, {5, 8}, {3, 2}}) {
    const auto tokens = Opened(MegatronIndex({{2, 1}, {}, {3}}, code, bytes),
                               TokenBytesOf({1, 2, 3, 4, 5, 6}, bytes));
    ASSERT_OK(tokens);
    ASSERT_EQ((*tokens)->size(), 3);
    EXPECT_THAT((*tokens)->Read(0)->tokens, ElementsAre(1, 2, 3));
    EXPECT_THAT((*tokens)->Read(1)->tokens, ElementsAre());
    EXPECT_THAT((*tokens)->Read(2)->tokens, ElementsAre(4, 5, 6));
    EXPECT_THAT((*tokens)->NameOf(2), HasSubstr("mega.bin: document 2"));
    const auto stream = (*tokens)->Stream();
    ASSERT_OK(stream);
    EXPECT_THAT(*ReadTokens(**stream, 0, 6), ElementsAre(1, 2, 3, 4, 5, 6));
  }
}

TEST_F(MegatronFiles, EveryNumberOfTheIndexIsChecked) {
  const std::string good = MegatronIndex({{2, 1}, {3}}, 8, 2);
  const std::string tokens = TokenBytesOf({1, 2, 3, 4, 5, 6}, 2);
  const auto changed = [&](size_t at, const std::string& bytes) {
    std::string index = good;
    return Opened(index.replace(at, bytes.size(), bytes), tokens);
  };
  using testing::LittleEndian;
  const auto is_bad = [](const char* text) {
    return StatusIs(absl::StatusCode::kDataLoss, HasSubstr(text));
  };
  EXPECT_OK(Opened(good, tokens));
  EXPECT_THAT(changed(0, "X"), is_bad("MMIDIDX"));
  EXPECT_THAT(changed(9, LittleEndian(2, 8)),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("mega.idx\" has version 2, but only "
                                       "version 1 is supported"),
                             HasSubstr("preprocess_data.py"))));
  EXPECT_THAT(changed(17, "\x06"), is_bad("code 6, but tokens are integers"));
  for (const int64_t count : {-1L, 2L, 4L, 1L << 62, -(1L << 62)}) {
    EXPECT_THAT(changed(18, LittleEndian(count, 8)), is_bad("sequences and"));
    EXPECT_THAT(changed(26, LittleEndian(count, 8)),
                is_bad("entries of the document index"));
  }
  // Sizes from byte 34, pointers from 46, documents from 70.
  EXPECT_THAT(changed(34, LittleEndian(-1, 4)),
              is_bad("has sequence 0 of -1 tokens"));
  EXPECT_THAT(changed(42, LittleEndian(4, 4)),
              is_bad("has sequence 2 of 4 tokens at byte 6"));
  EXPECT_THAT(changed(46, LittleEndian(-2, 8)), is_bad("at byte -2"));
  EXPECT_THAT(changed(62, LittleEndian(int64_t{1} << 62, 8)),
              is_bad("has sequence 2"));
  EXPECT_THAT(changed(70, LittleEndian(1, 8)),
              is_bad("mega.idx\" has 1 as entry 0 of 3 of its document index, "
                     "but the first one is 0"));
  EXPECT_THAT(changed(78, LittleEndian(9, 8)),
              is_bad("has 9 as entry 1 of 3 of its document index, but 3 "
                     "sequences"));
  EXPECT_THAT(changed(86, LittleEndian(1, 8)),
              is_bad("has 1 as entry 2 of 3 of its document index, but 2 as "
                     "entry 1"));
  EXPECT_THAT(changed(86, LittleEndian(2, 8)),
              is_bad("has 2 as entry 2 of 3 of its document index, but 3 "
                     "sequences"));
  EXPECT_THAT(Opened(good.substr(0, 20), tokens), is_bad("MMIDIDX"));
  EXPECT_THAT(Opened(good + "x", tokens), is_bad("take 94"));
  // Multimodal data has a byte more for each sequence.
  EXPECT_OK(Opened(good + "abc", tokens));
}

TEST_F(MegatronFiles, TokensBeyondTheVocabularyAreBadRecords) {
  const auto tokens =
      Opened(MegatronIndex({{1}, {1}}, 4, 4), TokenBytesOf({100000, 1}, 4));
  ASSERT_OK(tokens);
  EXPECT_THAT((*tokens)->Read(0), StatusIs(absl::StatusCode::kDataLoss,
                                           HasSubstr("document 0: token 0")));
  EXPECT_OK((*tokens)->Read(1));
}

TEST_F(MegatronFiles, AStreamIsInTheOrderOfTheIndex) {
  std::string index = MegatronIndex({{1}, {1, 0}, {2}}, 8, 2);
  // The pointers of the first two sequences, from byte 50 on, change places.
  std::swap_ranges(index.begin() + 50, index.begin() + 58, index.begin() + 58);
  const auto tokens = Opened(index, TokenBytesOf({7, 8, 5, 6}, 2));
  ASSERT_OK(tokens);
  EXPECT_THAT((*tokens)->Read(0)->tokens, ElementsAre(8));
  const auto stream = (*tokens)->Stream();
  ASSERT_OK(stream);
  EXPECT_THAT(*ReadTokens(**stream, 0, 4), ElementsAre(8, 7, 5, 6));
  EXPECT_THAT(*ReadTokens(**stream, 1, 2), ElementsAre(7, 5));
  // Three arrays of one file.
  EXPECT_THAT((*stream)->name(), ::testing::EndsWith("mega.bin\""));
}

class MegatronSets : public ::testing::Test {
 protected:
  // Writes a data set of one document and returns its prefix.
  static std::string Set(const std::string& name,
                         const std::vector<int64_t>& tokens, int code,
                         int bytes) {
    WriteDataFile(
        name + ".idx",
        MegatronIndex({{static_cast<int>(tokens.size())}}, code, bytes));
    const std::string path =
        WriteDataFile(name + ".bin", TokenBytesOf(tokens, bytes));
    return path.substr(0, path.size() - 4);
  }
};

TEST_F(MegatronSets, AreJoinedInTheGivenOrder) {
  const std::string a = Set("a", {1, 2, 3}, 8, 2), b = Set("b", {70000}, 4, 4),
                    c = Set("c", {4, 5}, 8, 2);
  const auto stream = MegatronTokens::OpenStream({c, a, b}, kVocabulary);
  ASSERT_OK(stream);
  ASSERT_EQ((*stream)->size(), 6);
  EXPECT_THAT(*ReadTokens(**stream, 0, 6), ElementsAre(4, 5, 1, 2, 3, 70000));
  EXPECT_THAT((*stream)->name(), HasSubstr("c.bin\" with 2 more files"));
}

TEST_F(MegatronSets, AnEmptyOneIsNamed) {
  const std::string a = Set("a", {1, 2, 3}, 8, 2),
                    empty = Set("none", {}, 8, 2);
  EXPECT_THAT(MegatronTokens::OpenStream({a, empty}, kVocabulary),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("none.bin\" has no tokens: 1 document, 1 "
                                 "sequence")));
}

TEST_F(MegatronSets, TheSameByAnotherPathIsListedTwice) {
  const std::string a = Set("a", {1, 2, 3}, 8, 2);
  const std::string relative =
      std::filesystem::relative(a, std::filesystem::current_path()).string();
  const std::string link = a + "_link";
  for (const char* end : {".bin", ".idx"}) {
    unlink((link + end).c_str());
    ASSERT_EQ(symlink((a + end).c_str(), (link + end).c_str()), 0);
  }
  for (const std::string& other : {a, relative, link}) {
    SCOPED_TRACE(other);
    EXPECT_THAT(MegatronTokens::OpenStream({a, other}, kVocabulary),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("a.bin\" is listed twice")));
    EXPECT_THAT(DataFiles(a + ".bin," + other + ".bin"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("a.bin\" is listed twice"),
                               other == a ? HasSubstr("help")
                                          : HasSubstr("again    \"" + other))));
  }
  for (const char* end : {".bin", ".idx"}) unlink((link + end).c_str());
}

TEST(SyntheticTokens, AreFrequentOnesAndTheirMirrors) {
  const auto stream = SyntheticTokens::Create(20001, 50304, 7);
  ASSERT_OK(stream);
  const std::vector<int32_t> tokens = *ReadTokens(**stream, 0, 20001);
  int low = 0;
  for (int64_t i = 0; i < 20000; i += 2) {
    ASSERT_LT(tokens[i], 50304);
    ASSERT_EQ(tokens[i + 1], 50303 - tokens[i]);
    if (tokens[i] < 50304 / 8) ++low;
  }
  // The cube of a uniform number is below 1/8 half of the time.
  EXPECT_NEAR(low, 5000, 200);
  EXPECT_NE(tokens,
            *ReadTokens(**SyntheticTokens::Create(20001, 50304, 8), 0, 20001));
  // A range has the tokens of the whole.
  EXPECT_EQ(*ReadTokens(**stream, 777, 10),
            std::vector<int32_t>(tokens.begin() + 777, tokens.begin() + 787));
  EXPECT_THAT(SyntheticTokens::Create(100, 0, 0),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("100 tokens from a vocabulary of 0")));
}

}  // namespace
}  // namespace mtf::train
