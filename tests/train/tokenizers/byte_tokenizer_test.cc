// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "train/tokenizers/byte_tokenizer.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ByteTokenizer, EncodesEachByteAndDecodesItAgain) {
  const ByteTokenizer tokenizer;
  std::string text;
  for (int byte = 0; byte < 256; ++byte) {
    text.push_back(static_cast<char>(byte));
  }
  const auto ids = tokenizer.Encode(text);
  ASSERT_OK(ids);
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ((*ids)[byte], byte);
  EXPECT_EQ(*tokenizer.Decode(*ids), text);
  EXPECT_THAT(*tokenizer.Encode("az"), ElementsAre('a', 'z'));
}

TEST(ByteTokenizer, TheEndOfATextIsNoText) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.vocabulary_size(), 257);
  EXPECT_EQ(tokenizer.special_tokens().eos, 256);
  EXPECT_EQ(tokenizer.special_tokens().pad, SpecialTokens::kNone);
  EXPECT_EQ(*tokenizer.Decode({'a', 256, 'b'}), "ab");
}

TEST(ByteTokenizer, RejectsIdsOutsideOfTheVocabulary) {
  const ByteTokenizer tokenizer;
  EXPECT_THAT(tokenizer.Decode({'a', 257}),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("token 1 is 257, but the vocabulary has 257 "
                                 "tokens")));
  EXPECT_THAT(tokenizer.Decode({-1}), StatusIs(absl::StatusCode::kOutOfRange,
                                               HasSubstr("token 0 is -1")));
}

}  // namespace
}  // namespace mtf::train
