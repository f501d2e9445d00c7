// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "train/data/text_dataset.h"

#include <cmath>
#include <fstream>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream(path) << text;
  return path;
}

std::string Alphabet() {
  std::string text;
  for (int i = 0; i < 256; ++i) text += static_cast<char>(i);
  return text;
}

TEST(TextDataset, ReadsAFile) {
  const absl::StatusOr<TextDataset> text =
      TextDataset::ReadFile(WriteFile("small.txt", "in the beginning"));
  ASSERT_OK(text);
  EXPECT_EQ(text->text(), "in the beginning");
}

TEST(TextDataset, AMissingFileIsNamed) {
  EXPECT_THAT(TextDataset::Open("/no/such/file.txt"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("\"/no/such/file.txt\""),
                             HasSubstr("No such file or directory"))));
}

TEST(TextDataset, ADirectoryAndADeviceAreErrors) {
  for (const char* path : {"/tmp", "/dev/zero"}) {
    EXPECT_THAT(
        TextDataset::Open(path),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr(path), HasSubstr("not a regular file"))));
  }
}

TEST(TextDataset, AnEmptyFileIsNamed) {
  const std::string path = WriteFile("empty.txt", "");
  EXPECT_THAT(TextDataset::ReadFile(path),
              StatusIs(absl::StatusCode::kOutOfRange,
                       AllOf(HasSubstr(path), HasSubstr("is empty"))));
}

TEST(TextDataset, ATextShorterThanAWindowIsNamed) {
  const absl::StatusOr<TextDataset> text =
      TextDataset::ReadFile(WriteFile("ten.txt", "0123456789"));
  ASSERT_OK(text);
  EXPECT_THAT(text->Draw(0, 0, {"batch", 1}, {"length", 10}),
              StatusIs(absl::StatusCode::kOutOfRange,
                       AllOf(HasSubstr("ten.txt"),
                             HasSubstr("is 10 bytes long, but a window of "
                                       "dimension \"length\" needs 11"))));
  // One window fits exactly.
  EXPECT_OK(text->Draw(0, 0, {"batch", 1}, {"length", 9}));
}

TEST(TextDataset, ATooLargeBatchIsAnError) {
  const TextDataset text = *TextDataset::FromText("abcdef", "six");
  EXPECT_THAT(text.Draw(0, 0, {"batch", int64_t{1} << 40}, {"length", 5}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("a batch of 1099511627776 windows of 5 "
                                 "bytes")));
}

TEST(TextDataset, TargetsAreTheNextBytes) {
  const TextDataset text = *TextDataset::FromText(Alphabet(), "alphabet");
  const absl::StatusOr<TextDataset::Batch> batch =
      text.Draw(1, 2, {"batch", 5}, {"length", 7});
  ASSERT_OK(batch);
  EXPECT_EQ(batch->tokens.shape(), (Shape{{"batch", 5}, {"length", 7}}));
  for (int row = 0; row < 5; ++row) {
    for (int i = 0; i < 7; ++i) {
      EXPECT_EQ(*batch->tokens.At(row * 7 + i), *batch->tokens.At(row * 7) + i);
      EXPECT_EQ(*batch->targets.At(row * 7 + i),
                *batch->tokens.At(row * 7 + i) + 1);
    }
  }
}

TEST(TextDataset, WindowsDependOnlyOnSeedStepAndRow) {
  const TextDataset text = *TextDataset::FromText(Alphabet(), "alphabet");
  const Dimension batch{"batch", 8}, length{"length", 7};
  EXPECT_TRUE(text.Draw(1, 2, batch, length)->tokens ==
              text.Draw(1, 2, batch, length)->tokens);
  EXPECT_FALSE(text.Draw(1, 2, batch, length)->tokens ==
               text.Draw(1, 3, batch, length)->tokens);
  EXPECT_FALSE(text.Draw(1, 2, batch, length)->tokens ==
               text.Draw(2, 2, batch, length)->tokens);
  // A row has the same offset in a smaller batch.
  const auto small = text.Draw(1, 2, {"batch", 3}, length);
  const auto large = text.Draw(1, 2, batch, length);
  for (int i = 0; i < 3 * 7; ++i) {
    EXPECT_EQ(*small->tokens.At(i), *large->tokens.At(i));
  }
}

TEST(TextDataset, WindowsReachBothEndsOfTheText) {
  const TextDataset text = *TextDataset::FromText("abcdef", "six");
  std::set<double> starts;
  for (int step = 0; step < 100; ++step) {
    starts.insert(
        *text.Draw(0, step, {"batch", 1}, {"length", 2})->tokens.At(0));
  }
  EXPECT_EQ(starts, (std::set<double>{'a', 'b', 'c', 'd'}));
}

TEST(BigramEntropy, OfADeterministicTextIsZero) {
  EXPECT_DOUBLE_EQ(TextDataset::FromText("abababab", "ab")->BigramEntropy(), 0);
}

TEST(BigramEntropy, EqualsTheEntropyOfTheCounts) {
  // Pairs: a->a 1, a->b 1, b->b 2. After a, two bytes are equally likely in
  // two of four cases; b is certain after b.
  EXPECT_NEAR(TextDataset::FromText("aabbb", "x")->BigramEntropy(),
              2 * std::log(2.0) / 4, 1e-12);
  // a->a 2, a->b 1, b->a 1: three pairs with odds 2 to 1.
  const double h = -2 * std::log(2.0 / 3) - std::log(1.0 / 3);
  EXPECT_NEAR(TextDataset::FromText("aaaba", "x")->BigramEntropy(), h / 4,
              1e-12);
}

TEST(BigramEntropy, CountsBytesBeyondAscii) {
  EXPECT_NEAR(
      TextDataset::FromText("\xff\xff\xfe\xfe\xfe", "x")->BigramEntropy(),
      2 * std::log(2.0) / 4, 1e-12);
}

TEST(KingJames, IsPlainTextWithoutReferences) {
  const absl::StatusOr<TextDataset> text = TextDataset::KingJames();
  if (text.status().code() == absl::StatusCode::kNotFound) {
    EXPECT_THAT(text, StatusIs(absl::StatusCode::kNotFound,
                               HasSubstr("name any text file with --text")));
    GTEST_SKIP() << "the program bible is not installed";
  }
  ASSERT_OK(text);
  EXPECT_EQ(text->text().rfind(
                "In the beginning God created the heaven and the earth.\n"
                "And the earth was without form",
                0),
            0u);
  EXPECT_GT(text->text().size(), 4000000u);
  EXPECT_GT(text->BigramEntropy(), 2.0);
  EXPECT_LT(text->BigramEntropy(), 3.0);
}

}  // namespace
}  // namespace mtf::train
