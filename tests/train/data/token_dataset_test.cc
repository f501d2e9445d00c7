// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "train/data/token_dataset.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

std::string Bytes(const std::vector<int>& tokens) {
  std::string bytes;
  for (int token : tokens) {
    bytes.push_back(static_cast<char>(token & 255));
    bytes.push_back(static_cast<char>(token >> 8));
  }
  return bytes;
}

std::vector<int> Count(int n) {
  std::vector<int> tokens(n);
  for (int i = 0; i < n; ++i) tokens[i] = i * 37 % 50257;
  return tokens;
}

TEST(TokenDataset, ReadsNumbersOfSixteenBits) {
  const auto text =
      TokenDataset::FromBytes(Bytes({1, 256, 50256}), "three", 50257);
  ASSERT_OK(text);
  EXPECT_EQ(text->size(), 3);
  EXPECT_EQ(text->At(0), 1);
  EXPECT_EQ(text->At(1), 256);
  EXPECT_EQ(text->At(2), 50256);
}

TEST(TokenDataset, SkipsTheHeaderOfLlmC) {
  constexpr int32_t kMagic = 20240520;
  std::string bytes(1024, '\0');
  std::memcpy(bytes.data(), &kMagic, 4);
  const auto text =
      TokenDataset::FromBytes(bytes + Bytes({7, 8, 9}), "header", 50257);
  ASSERT_OK(text);
  EXPECT_EQ(text->size(), 3);
  EXPECT_EQ(text->At(0), 7);
}

TEST(TokenDataset, TargetsAreTheNextTokens) {
  const std::vector<int> tokens = Count(1000);
  const auto text = TokenDataset::FromBytes(Bytes(tokens), "text", 50257);
  ASSERT_OK(text);
  const auto batch = text->Draw(3, 5, {"batch", 4}, {"length", 16});
  ASSERT_OK(batch);
  for (int row = 0; row < 4; ++row) {
    // Tokens increase in steps of 37, so a window shows its offset.
    const int begin = static_cast<int>(*batch->tokens.At(row * 16)) / 37;
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(*batch->tokens.At(row * 16 + i), tokens[begin + i]);
      EXPECT_EQ(*batch->targets.At(row * 16 + i), tokens[begin + i + 1]);
    }
  }
}

TEST(TokenDataset, WindowsDependOnSeedStepAndRow) {
  const auto text = TokenDataset::FromBytes(Bytes(Count(1000)), "text", 50257);
  ASSERT_OK(text);
  const auto first = [&](uint32_t seed, uint32_t step) {
    return text->Draw(seed, step, {"batch", 4}, {"length", 16})->tokens;
  };
  EXPECT_TRUE(first(1, 2) == first(1, 2));
  EXPECT_FALSE(first(1, 2) == first(2, 2));
  EXPECT_FALSE(first(1, 2) == first(1, 3));
  EXPECT_NE(*first(1, 2).At(0), *first(1, 2).At(16));
}

TEST(TokenDataset, SyntheticTokensAreFrequentOnesAndTheirMirrors) {
  const auto text = TokenDataset::Synthetic(20001, 50304, 7);
  ASSERT_OK(text);
  ASSERT_EQ(text->size(), 20001);
  int low = 0;
  for (int64_t i = 0; i < 20000; i += 2) {
    ASSERT_LT(text->At(i), 50304);
    ASSERT_EQ(text->At(i + 1), 50303 - text->At(i));
    if (text->At(i) < 50304 / 8) ++low;
  }
  // The cube of a uniform number is below 1/8 half of the time.
  EXPECT_NEAR(low, 5000, 200);
  EXPECT_NE(text->At(0), TokenDataset::Synthetic(2, 50304, 8)->At(0));
  EXPECT_EQ(text->At(0), TokenDataset::Synthetic(2, 50304, 7)->At(0));
  EXPECT_THAT(
      TokenDataset::Synthetic(100, 65537, 0),
      StatusIs(absl::StatusCode::kOutOfRange,
               HasSubstr("100 tokens of 16 bits from a vocabulary of 65537")));
}

TEST(TokenDataset, AFileOfOneWindowHasOneBatch) {
  const auto text = TokenDataset::FromBytes(Bytes(Count(17)), "text", 50257);
  ASSERT_OK(text);
  const auto batch = text->Draw(0, 0, {"batch", 1}, {"length", 16});
  ASSERT_OK(batch);
  EXPECT_EQ(*batch->tokens.At(0), 0);
  EXPECT_EQ(*batch->targets.At(15), 16 * 37);
}

TEST(TokenDataset, InvalidFilesAreErrors) {
  EXPECT_THAT(TokenDataset::ReadFile("/no/such/file", 50257),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("cannot read tokens \"/no/such/file\"")));
  EXPECT_THAT(
      TokenDataset::FromBytes(Bytes({5}), "one", 50257),
      StatusIs(absl::StatusCode::kOutOfRange,
               HasSubstr("file \"one\" has 1 token, but needs at least 2")));
  EXPECT_THAT(TokenDataset::FromBytes(Bytes({5, 256}), "wide", 256),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("token 1 of file \"wide\" is 256, but the "
                                 "vocabulary has 256 tokens")));
  const auto text = TokenDataset::FromBytes(Bytes(Count(16)), "short", 50257);
  ASSERT_OK(text);
  EXPECT_THAT(text->Draw(0, 0, {"batch", 1}, {"length", 16}),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("file \"short\" has 16 tokens, but a window "
                                 "of dimension \"length\" needs 17")));
}

}  // namespace
}  // namespace mtf::train
